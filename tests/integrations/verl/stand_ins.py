"""A training run of verl without a GPU: stand-ins for the model server and for the model engines, nothing else.

The engines are workers of real worker groups, so what the trainer sends them is dispatched, pickled and collected as
ever. They answer with numbers that depend on the position alone.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import ray
import torch
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.single_controller.ray import RayResourcePool, ResourcePoolManager
from verl.utils import tensordict_utils as tu
from verl.workers.rollout.llm_server import GlobalRequestLoadBalancer
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

from .rig import Model


class Server(Model):
    """Ends each answer with the next number for its question, so that no two rollouts of a group get the same reward.

    A question with `same` in it always gets 1, so all its rollouts do; the second time that one with `flaky` in it is
    asked, there is no answer.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.answers: Counter[str] = Counter()

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any, **more: Any) -> Any:
        output = await super().generate(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params, **more)
        said = self.tokenizer.decode(output.token_ids)
        if "the answer to" in said:
            question = said.partition("the answer to ")[2].rpartition(" is ")[0]
            number = 1 if "same" in question else self.answers[question] % 4
            self.answers[question] += 1
            if "flaky" in question and self.answers[question] == 2:
                raise ValueError("no answer")
            said = said.replace(" is 4", f" {'very ' * number}surely is {number}")
            output.token_ids = self.tokenizer.encode(said, add_special_tokens=False)
            output.log_probs = [-0.5 - number / 1000 for number in range(len(output.token_ids))]
        return output

    async def sleep(self) -> None: ...

    async def wake_up(self) -> None: ...

    async def abort_all_requests(self, reject_request: bool = False) -> None: ...

    async def resume_generation(self) -> None: ...


class Replica(RolloutReplica):
    """All replicas are the one server of the test."""

    server: Any = None
    balancer: Any = None

    async def launch_servers(self) -> None:
        self.servers = [self.server]
        self._server_handle, self._server_address = self.server, f"replica-{self.replica_rank}"


class RewardModel:
    """As RewardModelManager, but the custom reward function asks no model."""

    def __init__(self, config: Any, resource_pool: Any = None) -> None: ...

    def get_router_address(self) -> str:
        return "nowhere"

    def wake_up(self) -> None: ...

    def sleep(self) -> None: ...


class Engine(Worker):
    """As ActorRolloutRefWorker, and as the TrainingWorker of a critic."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Worker.__init__(self)
        for mesh in ("actor", "ref", "train"):
            self._register_dispatch_collect_info(mesh, dp_rank=self.rank, is_collect=True)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None: ...

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def reset(self) -> None: ...

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def set_loss_fn(self, loss_fn: Any) -> None: ...

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> None: ...

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def compute_log_prob(self, data: Any) -> Any:
        return _answer(data, log_probs=-0.001, entropy=0.0)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="ref"))
    def compute_ref_log_prob(self, data: Any) -> Any:
        return _answer(data, log_probs=-0.002)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def infer_batch(self, data: Any) -> Any:
        return _answer(data, values=0.01)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"))
    def update_actor(self, data: Any) -> Any:
        return _answer(data)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def train_mini_batch(self, data: Any) -> Any:
        return _answer(data)


def _answer(data: Any, **slopes: float) -> Any:
    """For each token, its position times the slope."""
    input_ids = data["input_ids"]
    columns = {
        name: torch.nested.nested_tensor_from_jagged(
            torch.cat([slope * torch.arange(len(each), dtype=torch.float32) for each in input_ids.unbind()]),
            offsets=input_ids.offsets(),
        )
        for name, slope in slopes.items()
    }
    return tu.get_tensordict(columns, {"metrics": {"mfu": 0.0, "grad_norm": 1.0, "loss": 0.0}})


class Here:
    """As a RayWorkerGroup of engines, without processes of their own: those take long to start."""

    def __init__(self, resource_pool: Any, **more: Any) -> None:
        self.world_size = resource_pool.world_size
        self.workers: list[Any] = []
        self._dispatch_info = {"actor": list(range(self.world_size))}

    def spawn(self, prefix_set: Any) -> dict[str, Here]:
        return dict.fromkeys(prefix_set, self)

    def init_model(self) -> None: ...

    def reset(self) -> None: ...

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None: ...

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> None: ...

    def set_loss_fn(self, loss_fn: Any) -> None: ...

    def update_weights(self, **more: Any) -> list[Any]:
        return []

    def compute_log_prob(self, data: Any) -> Any:
        return Engine.compute_log_prob(None, data)

    def compute_ref_log_prob(self, data: Any) -> Any:
        return Engine.compute_ref_log_prob(None, data)

    def update_actor(self, data: Any) -> Any:
        return Engine.update_actor(None, data)

    def infer_batch(self, data: Any) -> Any:
        return Ready(Engine.infer_batch(None, data))

    def train_mini_batch(self, data: Any) -> Any:
        return Ready(Engine.train_mini_batch(None, data))


class Ready:
    """As a DataProtoFuture that has come."""

    def __init__(self, output: Any) -> None:
        self.output = output
        self.futures: list[Any] = []

    def get(self) -> Any:
        return self.output


class Pools(ResourcePoolManager):
    """Worker groups that ask Ray for no GPU."""

    def create_resource_pool(self) -> None:
        for name, processes in self.resource_pool_spec.items():
            self.resource_pool_dict[name] = RayResourcePool(
                process_on_nodes=processes, use_gpu=False, max_colocate_count=1, name_prefix=name
            )


def serve(model: str, server: Any = Server) -> None:
    """Start the server, once for all runs, and let it be all replicas; and one who sends requests there."""
    RolloutReplicaRegistry.register("vllm", lambda: Replica)
    if Replica.server is None:
        Replica.server = ray.remote(server).options(num_cpus=0).remote(model)
        balancer = ray.remote(GlobalRequestLoadBalancer).options(num_cpus=0)
        Replica.balancer = balancer.remote(servers={"replica-0": Replica.server})
