"""Models of any family: constructed, trained, certified, saved and loaded.

Contains: the result of closed forms, model files, `verify`, and the extraction of models from other objects. Add here:
code for models of every family, trained or not.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.models.constructed import BITS_OF_LANGUAGE_MODELS as BITS_OF_LANGUAGE_MODELS
    from factrank.experiments.models.constructed import CONSTRUCTION_NOTE as CONSTRUCTION_NOTE
    from factrank.experiments.models.constructed import Constructed as Constructed
    from factrank.experiments.models.constructed import notes_of as notes_of
    from factrank.experiments.models.constructed import width_in_bits as width_in_bits
    from factrank.experiments.models.handed_models import handed_model as handed_model
    from factrank.experiments.models.model_files import SavedModel as SavedModel
    from factrank.experiments.models.model_files import family_of_file as family_of_file
    from factrank.experiments.models.model_files import load as load
    from factrank.experiments.models.model_files import read_model_file as read_model_file
    from factrank.experiments.models.model_files import save as save
    from factrank.experiments.models.model_files import write_model_file as write_model_file
    from factrank.experiments.models.verification import claimed_options as claimed_options
    from factrank.experiments.models.verification import verify as verify
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
