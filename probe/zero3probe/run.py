"""A run as plain data: the model, the settings, what every rank does, as docs/run-format.md spells them out.

Sizes are elements of full parameters. Everything names modules and plans by index.
"""
from dataclasses import dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

CHECKPOINTS = ("reentrant", "non-reentrant", "whole-recompute")
OPS = ("forward", "backward", "step", "train", "eval", "save_16bit_model", "consolidated_16bit_state_dict",
       "save_checkpoint", "load_checkpoint", "empty_partition_cache", "offload_states", "reload_states",
       "register_hooks_again", "gather", "gather_exit", "unwrap", "unwrap_exit")

ParamRef = Tuple[int, int]  # module index, index into its params


@dataclass
class Param:
    """A parameter as its module registers it. `same_as`: another name for that module's parameter."""
    name: str
    shape: Tuple[int, ...] = ()
    requires_grad: bool = True
    same_as: Optional[ParamRef] = None


@dataclass
class External:
    """A parameter of another module that a forward uses; `registered`: by `register_external_parameter`."""
    param: ParamRef
    registered: bool = False


@dataclass
class Module:
    name: str  # qualified; the root has its own
    type: str = "Module"
    params: List[Param] = field(default_factory=list)
    children: List[Tuple[str, int]] = field(default_factory=list)  # name, module index; registration order
    externals: List[External] = field(default_factory=list)
    outputs: int = 1
    leaf: bool = False
    qualified_type: str = ""  # with its Python module; recorded runs have it


class Tensors(NamedTuple):
    """Tensors that require grad among those that a recorded call was given by position, or returned.

    Numbers of tensors. `reached`: those that backward comes to; `contained`: in lists and dicts.
    """
    requiring_grad: int = 1
    reached: int = 1
    contained_requiring_grad: int = 0
    contained_reached: int = 0


@dataclass
class Flow:
    """The tensors of one recorded call.

    `first_*`: of a call in a reentrant region, how many require grad when that runs first, without grad: alone
    or in tuples, and in lists and dicts.
    """
    inputs: Tensors = Tensors()
    outputs: Tensors = Tensors()
    first_inputs: Tuple[int, int] = (0, 0)
    first_outputs: Tuple[int, int] = (0, 0)


@dataclass
class Call:
    """One module call of a forward.

    `checkpoint` is None or one of CHECKPOINTS. To recorded plans alone belong `flow` and what is no module call:
    with `read`, a weight that the module around it reads; with `region`, one of CHECKPOINTS, what a checkpointed
    region calls; with `stop`, the place where the recomputation of the region around it stops.
    """
    module: int = 0
    calls: List["Call"] = field(default_factory=list)
    checkpoint: Optional[str] = None
    detach: bool = False
    discard: bool = False
    flow: Optional[Flow] = None
    read: Optional[ParamRef] = None
    region: Optional[str] = None
    stop: bool = False


@dataclass
class Raised:
    """What ended a recorded run, or a statement of it that the script went on from."""
    statement: int
    exception: str
    text: str
    path: List[str] = field(default_factory=list)


@dataclass
class Op:
    """One operation; `op` is one of OPS. `plan` is an index into Run.plans and belongs to forward alone."""
    op: str
    engine: int = 0
    plan: Optional[int] = None
    grad: bool = True
    direct: bool = False
    overflow: bool = False
    params: List[ParamRef] = field(default_factory=list)
    modifier_rank: Optional[int] = None
    module: Optional[int] = None  # of train and eval: that module's alone


@dataclass
class Statement:
    text: str
    ops: List[Op] = field(default_factory=list)


@dataclass
class Engine:
    root: int = 0  # module index
    optimizer: bool = True


@dataclass
class Run:
    name: str = ""
    ranks: int = 1
    seed: int = 0
    input_requires_grad: bool = True
    deepspeed_config: Dict[str, Any] = field(default_factory=dict)
    engines: List[Engine] = field(default_factory=lambda: [Engine()])
    modules: List[Module] = field(default_factory=list)
    recorded: Optional[Dict[str, Any]] = None
    plans: List[List[Call]] = field(default_factory=list)
    programs: List[List[Statement]] = field(default_factory=list)  # one a rank; equal ones are the same list
    partial: bool = False  # the file was cut
    root_flows: Dict[int, Flow] = field(default_factory=dict)  # by plan: of the recorded ones
    raised: Dict[int, List[Raised]] = field(default_factory=dict)  # by rank; of a recorded run
