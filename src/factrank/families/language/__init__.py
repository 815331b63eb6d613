"""The language family: small decoders with independent query-key and value-output widths.

Contents: shapes, the model, its loss over the vocabulary, sequences of facts, in-context recall and text, export.
Another kind of sequence belongs here, as a `TokenSource`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.language.language_data import SAMPLE_TEXT as SAMPLE_TEXT
    from factrank.families.language.language_data import InContextRecall as InContextRecall
    from factrank.families.language.language_data import PartsRemoved as PartsRemoved
    from factrank.families.language.language_data import Sentences as Sentences
    from factrank.families.language.language_data import TextFile as TextFile
    from factrank.families.language.language_model import LanguageModel as LanguageModel
    from factrank.families.language.language_model import init_language_model as init_language_model
    from factrank.families.language.language_shape import LanguageShape as LanguageShape
    from factrank.families.language.llama_folder import export_language_model as export_language_model
    from factrank.families.language.llama_folder import token_words as token_words
    from factrank.families.language.tensors_by_name import attention_state as attention_state
    from factrank.families.language.tensors_by_name import language_model_in as language_model_in
    from factrank.families.language.text_windows import TokenisedText as TokenisedText
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
