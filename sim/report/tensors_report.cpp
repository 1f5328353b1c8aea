#include "sim/report/tensors_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zero3::sim {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxLosses = 8;
constexpr size_t kMaxWeights = 4;

std::string compared(const ComparedValue& value) {
  return value.differs() ? fmt::format("{:.9g} (without DeepSpeed {:.9g})", value.value, value.reference)
                         : fmt::format("{:.9g}", value.value);
}

void add_losses(std::string& out, const RunReport& report, size_t rank) {
  const TensorReport& tensors = report.tensors[rank];
  if (tensors.losses.empty()) return;
  const size_t shown = std::min(kMaxLosses, tensors.losses.size());
  std::string text;
  for (size_t i = tensors.losses.size() - shown; i < tensors.losses.size(); ++i) {
    const TensorReport::Loss& loss = tensors.losses[i];
    text +=
        fmt::format("{}step {}: {}", text.empty() ? "" : ", ", loss.statement + 1, compared(loss.compared));
  }
  out +=
      fmt::format("  losses: {}rank {}, {}\n", shown < tensors.losses.size() ? "the last, " : "", rank, text);
}

void add_weights(std::string& out, const TensorReport& tensors, size_t rank) {
  size_t shown = 0;
  for (const TensorReport::UnlikeWeight& unlike : tensors.unlike_weights) {
    if (++shown > kMaxWeights) {
      out += fmt::format("  and {} more on rank {}\n", tensors.unlike_weights.size() - kMaxWeights, rank);
      return;
    }
    out += fmt::format("  weight: rank {}, {}[{}] is {}, {} element{} unlike\n", rank, unlike.name,
                       unlike.element, compared(unlike.compared), unlike.numel, unlike.numel == 1 ? "" : "s");
  }
}

ordered_json to_json(const ComparedValue& compared) {
  return {{"value", compared.value}, {"reference", compared.reference}, {"differs", compared.differs()}};
}

}  // namespace

std::string tensors_text(const RunReport& report) {
  if (report.tensors.empty()) return "";
  const TensorReport& first = report.tensors.front();
  const bool alike = std::ranges::all_of(report.tensors, [](const TensorReport& one) {
    return one.unlike_weights.empty() && std::ranges::none_of(one.losses, [](const TensorReport::Loss& loss) {
             return loss.compared.differs();
           });
  });
  const std::string beside = !first.no_reference.empty() ? "nothing to compare with: " + first.no_reference
                             : alike ? "losses and weights are those of training without DeepSpeed"
                                     : "not what training without DeepSpeed gives";
  std::string out = fmt::format("  values: {} by {}, {}, {} update{}; {}\n", first.dtype, first.library,
                                first.optimizer, first.updates, first.updates == 1 ? "" : "s", beside);
  for (size_t rank = 0; rank < report.tensors.size(); ++rank) {
    add_losses(out, report, rank);
    add_weights(out, report.tensors[rank], rank);
    for (const std::string& file : report.tensors[rank].files) out += fmt::format("  wrote:  {}\n", file);
  }
  return out;
}

ordered_json tensors_json(const RunReport& report) {
  if (report.tensors.empty()) return nullptr;
  ordered_json all = ordered_json::array();
  for (const TensorReport& tensors : report.tensors) {
    ordered_json losses = ordered_json::array();
    for (const TensorReport::Loss& loss : tensors.losses) {
      ordered_json one = {{"step", loss.statement + 1}};
      one.update(to_json(loss.compared));
      losses.push_back(one);
    }
    ordered_json weights = ordered_json::array();
    for (const TensorReport::UnlikeWeight& unlike : tensors.unlike_weights) {
      ordered_json one = {{"name", unlike.name}, {"element", unlike.element}, {"elements", unlike.numel}};
      one.update(to_json(unlike.compared));
      weights.push_back(one);
    }
    ordered_json reference = nullptr;
    if (!tensors.no_reference.empty()) reference = tensors.no_reference;
    all.push_back({{"library", tensors.library},
                   {"dtype", tensors.dtype},
                   {"optimizer", tensors.optimizer},
                   {"updates", tensors.updates},
                   {"no_reference", reference},
                   {"losses", losses},
                   {"unlike_weights", weights},
                   {"files", tensors.files}});
  }
  return all;
}

}  // namespace zero3::sim
