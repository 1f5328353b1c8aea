#include "sim/tensors/torch/torch_tensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "sim/bad_input.h"
#include "sim/tensors/torch/computation.h"
#include "sim/tensors/torch/partitioned_optimizer.h"
#include "sim/tensors/torch/torch_pass.h"

namespace zero3::sim {
namespace {

// Hears of a gradient as soon as it is accumulated.
class AccumulationHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit AccumulationHook(std::function<void(bool)> accumulated) : accumulated_(std::move(accumulated)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& inputs) override {
    accumulated_(inputs.front().defined());
    return outputs;
  }

 private:
  std::function<void(bool)> accumulated_;
};

// fp16.enabled of the settings, where --dtype says nothing.
TensorOptions with_dtype(TensorOptions options, const Settings& settings) {
  if (options.dtype.empty()) options.dtype = settings.fp16 ? "float16" : "float32";
  return options;
}

// LibTorch 1.13 has no matrix products of fp16 on a CPU.
void check_computes(torch::ScalarType dtype, const std::string& name) {
  try {
    const torch::Tensor one = torch::ones({1, 1}, dtype);
    torch::linear(one, one);
  } catch (const c10::Error& error) {
    throw BadInput(fmt::format("LibTorch {} cannot compute {} on this device: {}", TORCH_VERSION, name,
                               error.what_without_backtrace()),
                   "--dtype float32 or bfloat16");
  }
}

bool is_recorded(const std::vector<PlannedCall>& plan) {
  return std::ranges::any_of(plan, [](const PlannedCall& call) {
    return call.flow || call.read || call.module == PlannedCall::kNoModule || is_recorded(call.children);
  });
}

void check_not_recorded(const Experiment& experiment) {
  for (const Program& program : experiment.rank_programs) {
    for (const Statement& statement : program) {
      for (const Op& op : statement.ops) {
        if (op.root_flow || is_recorded(op.plan))
          throw BadInput("a recorded run has no values: what its modules compute is not known",
                         "leave out --tensors");
      }
    }
  }
}

}  // namespace

TorchTensors::TorchTensors(const Experiment& experiment, const Behaviour& behaviour, int rank,
                           const TensorOptions& options)
    : experiment_(experiment),
      behaviour_(behaviour),
      rank_(rank),
      world_size_(static_cast<int>(experiment.rank_programs.size())),
      options_(with_dtype(options, experiment.settings)),
      dtype_(scalar_type(options_.dtype)) {
  check_not_recorded(experiment_);
  check_computes(dtype_, options_.dtype);
}

TorchTensors::~TorchTensors() = default;

void TorchTensors::begin_run(Model& model) {
  reference_ = std::make_unique<Reference>(experiment_, behaviour_, model, dtype_, options_);
}

void TorchTensors::convert(std::span<Param* const> params) {
  for (Param* param : params) {
    TorchParam& made = params_[param->ds_id];
    made.param = param;
    const int64_t shard = param->partition_numel(world_size_);
    const torch::Tensor whole = initial_values(param->ds_id, param->ds_shape).to(dtype_);
    made.partition = partition_of(whole, rank_, shard);
    // Its node is made while it is whole: gradients are checked against that shape.
    made.variable = whole.clone().set_requires_grad(param->requires_grad);
    if (param->requires_grad) {
      made.accumulator = torch::autograd::impl::grad_accumulator(made.variable);
      made.accumulator->add_post_hook(std::make_unique<AccumulationHook>([this, param](bool gradient) {
        if (running_ != nullptr) running_->accumulate(*param, gradient);
      }));
    }
    free(*param);
  }
}

void TorchTensors::free(Param& param) {
  TorchParam& torch_param = of(param);
  torch_param.awaited = torch::Tensor();
  torch_param.variable.set_data(torch::ones({behaviour_.partitioned_data_numel}, dtype_));
}

void TorchTensors::make_whole(Param& param, bool shares_partition) {
  TorchParam& torch_param = of(param);
  torch::Tensor whole;
  if (world_size_ == 1) {
    const torch::Tensor own = torch_param.partition.narrow(0, 0, param.ds_numel);
    whole = shares_partition ? own : own.clone();
  } else if (torch_param.arrived.defined()) {
    whole = std::exchange(torch_param.arrived, torch::Tensor());
  } else {
    whole = torch::zeros({param.ds_numel}, dtype_);
    torch_param.awaited = whole;
  }
  torch_param.variable.set_data(whole.view(param.ds_shape));
}

void TorchTensors::update_partition(Param& param) {
  const TorchParam& torch_param = of(param);
  const torch::NoGradGuard no_grad;
  torch_param.partition.copy_(
      partition_of(torch_param.variable.detach(), rank_, torch_param.partition.numel()));
}

std::unique_ptr<ModelPass> TorchTensors::make_model_pass(Process& process, Runtime& runtime,
                                                         Partitioner& partitioner) {
  return std::make_unique<TorchPass>(process, runtime, partitioner, *this);
}

std::unique_ptr<OptimizerTensors> TorchTensors::make_optimizer(std::span<Param* const> params) {
  return std::make_unique<PartitionedOptimizer>(*this, params);
}

void TorchTensors::add_to_state_dict(const std::string& name, const Param& param) {
  if (rank_ == 0) state_dict_.emplace_back(name, of(param).variable.detach().clone());
}

void TorchTensors::write_state_dict() {
  if (rank_ != 0 || options_.save_dir.empty()) return;
  const std::filesystem::path file = std::filesystem::path(options_.save_dir) / "pytorch_model.bin";
  write_tensors(file, state_dict_);
  wrote(file.string());
}

std::span<std::byte> TorchTensors::bytes_of(const torch::Tensor& tensor) const {
  if (!tensor.defined()) return {};
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

torch::Tensor TorchTensors::whole_gradient(const TorchParam& param) const {
  const int64_t numel = param.param->ds_numel;
  torch::Tensor gradient = torch::zeros({param.partition.numel() * world_size_}, dtype_);
  const torch::Tensor own = param.variable.grad();
  if (own.defined() && own.numel() == numel) gradient.narrow(0, 0, numel).copy_(own.flatten());
  return gradient;
}

Buffers TorchTensors::begin(const Collective& collective) {
  const torch::NoGradGuard no_grad;
  Open& open = open_[{collective.group, collective.number}];
  const int64_t part = collective.shard_numel;
  switch (collective.kind) {
    case CollectiveKind::kAllGather: {
      open.receive = torch::zeros({part * world_size_}, dtype_);
      int64_t at = part * rank_;
      for (const int ds_id : collective.ds_ids) {
        const torch::Tensor& partition = params_.at(ds_id).partition;
        open.receive.narrow(0, at, partition.numel()).copy_(partition);
        at += partition.numel();
      }
      break;
    }
    case CollectiveKind::kReduceScatter: {
      // Averaged before they are summed, as DeepSpeed does.
      std::vector<torch::Tensor> averaged;
      for (const int ds_id : collective.ds_ids)
        averaged.push_back(whole_gradient(params_.at(ds_id)).div_(world_size_));
      std::vector<torch::Tensor> parts;
      for (int owner = 0; owner < world_size_; ++owner) {
        for (size_t i = 0; i < averaged.size(); ++i)
          parts.push_back(averaged[i].narrow(0, owner * collective.shards[i], collective.shards[i]));
      }
      open.send = parts.empty() ? torch::zeros({0}, dtype_) : torch::cat(parts);
      open.receive = torch::zeros({part}, dtype_);
      break;
    }
    case CollectiveKind::kBroadcast: {
      const TorchParam& param = params_.at(collective.ds_ids.front());
      open.receive = torch::zeros({collective.numel()}, dtype_);
      if (param.variable.numel() == open.receive.numel())
        open.receive.copy_(param.variable.detach().flatten());
      break;
    }
    default:
      open.receive = torch::zeros({collective.numel()}, torch::kFloat64);
      if (collective.meeting == Meeting::kGradientNorm) open.receive.fill_(squared_norm_);
  }
  return {bytes_of(open.send), bytes_of(open.receive)};
}

void TorchTensors::reduce(const Collective& collective, std::span<const std::byte> of_all) {
  const Open& open = open_.at({collective.group, collective.number});
  torch::Tensor all = torch::zeros({world_size_, open.receive.numel()}, open.receive.options());
  if (!of_all.empty()) std::memcpy(all.data_ptr(), of_all.data(), of_all.size());
  open.receive.copy_(all[0]);
  for (int rank = 1; rank < world_size_; ++rank) open.receive.add_(all[rank]);
}

void TorchTensors::end(const Collective& collective, size_t) {
  const torch::NoGradGuard no_grad;
  const auto open = open_.find({collective.group, collective.number});
  const torch::Tensor received = open->second.receive;
  open_.erase(open);
  if (collective.kind == CollectiveKind::kAllGather) take_gathered(collective, received);
  if (collective.kind == CollectiveKind::kReduceScatter) take_reduced(collective, received);
  const bool norm =
      collective.kind == CollectiveKind::kAllReduce && collective.meeting == Meeting::kGradientNorm;
  if (norm) squared_norm_ = received.item<double>();
  if (collective.kind == CollectiveKind::kBroadcast) {
    TorchParam& param = params_.at(collective.ds_ids.front());
    if (param.variable.numel() == received.numel())
      param.variable.variable_data().copy_(received.view(param.variable.sizes()));
  }
}

void TorchTensors::take_gathered(const Collective& collective, const torch::Tensor& received) {
  int64_t at = 0;
  for (size_t i = 0; i < collective.ds_ids.size(); ++i) {
    TorchParam& param = params_.at(collective.ds_ids[i]);
    std::vector<torch::Tensor> parts;
    for (int rank = 0; rank < world_size_; ++rank)
      parts.push_back(received.narrow(0, rank * collective.shard_numel + at, collective.shards[i]));
    at += collective.shards[i];
    const torch::Tensor whole = torch::cat(parts).narrow(0, 0, param.param->ds_numel);
    if (param.awaited.defined()) {
      std::exchange(param.awaited, torch::Tensor()).copy_(whole);
    } else {
      param.arrived = whole.clone();
    }
  }
}

void TorchTensors::take_reduced(const Collective& collective, const torch::Tensor& received) {
  int64_t at = 0;
  for (size_t i = 0; i < collective.ds_ids.size(); ++i) {
    reduced_[collective.ds_ids[i]] = received.narrow(0, at, collective.shards[i]).clone();
    at += collective.shards[i];
  }
}

torch::Tensor TorchTensors::take_reduced_gradient(Param& param) {
  TorchParam& torch_param = of(param);
  if (world_size_ == 1) reduced_[param.ds_id] = whole_gradient(torch_param);
  torch_param.variable.mutable_grad() = torch::Tensor();
  const auto found = reduced_.find(param.ds_id);
  if (found == reduced_.end()) return torch::zeros_like(torch_param.partition);
  torch::Tensor gradient = found->second;
  reduced_.erase(found);
  return gradient;
}

void TorchTensors::ran(const Op& op, size_t statement) {
  reference_->ran(op, rank_);
  for (const double loss : losses_) {
    const double reference = reference_->exists() ? reference_->last_loss() : loss;
    compared_losses_.push_back({statement, {loss, reference}});
  }
  losses_.clear();
}

TensorReport TorchTensors::end_run() {
  reference_->make_weights();  // where nothing ran
  TensorReport report{.library = fmt::format("LibTorch {}", TORCH_VERSION),
                      .dtype = options_.dtype,
                      .optimizer = fmt::format("{}, lr {:g}", options_.optimizer, options_.learning_rate),
                      .updates = updates_,
                      .losses = compared_losses_,
                      .no_reference = reference_->why_not(),
                      .files = files_};
  if (reference_->exists()) compare_weights(report);
  return report;
}

// This rank's partitions, and what it holds gathered.
void TorchTensors::compare_weights(TensorReport& report) const {
  for (const auto& [ds_id, param] : params_) {
    const torch::Tensor reference = reference_->weight(*param.param).flatten();
    const int64_t shard = param.partition.numel();
    const auto compare = [&](const torch::Tensor& own, const torch::Tensor& other, int64_t begin) {
      const torch::Tensor unlike = torch::nonzero(own != other).flatten();
      if (unlike.numel() == 0) return true;
      const auto at = unlike[0].item<int64_t>();
      report.unlike_weights.push_back({param.param->name,
                                       begin + at,
                                       unlike.numel(),
                                       {own[at].item<double>(), other[at].item<double>()}});
      return false;
    };
    const bool alike = compare(param.partition, partition_of(reference, rank_, shard), rank_ * shard);
    if (alike && param.param->data_is_full && param.param->ds_status == ZeroParamStatus::kAvailable)
      compare(param.variable.detach().flatten(), reference, 0);
  }
}

}  // namespace zero3::sim
