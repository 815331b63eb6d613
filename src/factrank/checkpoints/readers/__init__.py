"""Readers of checkpoints: safetensors folders, GGUF files, LoRA folders and state dicts, one tensor or row at a time.

Contains: a reader per format, all of which return tensors that are read on demand. Add here: another format. A reader
allocates no more than the file has bytes, whatever its header claims, and executes nothing.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.checkpoints.readers.gguf_file import GGUF_SUFFIX as GGUF_SUFFIX
    from factrank.checkpoints.readers.gguf_file import GgufFile as GgufFile
    from factrank.checkpoints.readers.gguf_file import read_gguf as read_gguf
    from factrank.checkpoints.readers.lora_folder import LORA_CONFIGURATION as LORA_CONFIGURATION
    from factrank.checkpoints.readers.lora_folder import LowRankUpdate as LowRankUpdate
    from factrank.checkpoints.readers.lora_folder import read_lora as read_lora
    from factrank.checkpoints.readers.safetensors_folder import CONFIGURATION as CONFIGURATION
    from factrank.checkpoints.readers.safetensors_folder import read_folder as read_folder
    from factrank.checkpoints.readers.safetensors_folder import read_safetensors as read_safetensors
    from factrank.checkpoints.readers.state_dicts import read_state_dict as read_state_dict
    from factrank.checkpoints.readers.stored_tensor import StoredTensor as StoredTensor
    from factrank.checkpoints.readers.stored_tensor import Tensors as Tensors
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
