"""Running tapes: plans, workspaces, generated kernels, and the reference interpreter."""

from .plan import Plan, make_plan
from .verify_plan import verify
from .workspace import Workspace

__all__ = ["Plan", "Workspace", "make_plan", "verify"]
