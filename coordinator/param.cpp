#include "coordinator/param.h"

#include <algorithm>

namespace zero3 {

std::string status_text(ZeroParamStatus status) {
  switch (status) {
    case ZeroParamStatus::kNotAvailable: return "NOT_AVAILABLE";
    case ZeroParamStatus::kInflight: return "INFLIGHT";
    case ZeroParamStatus::kAvailable: return "AVAILABLE";
  }
  return "?";
}

void ActiveSubModules::add(int module_id) {
  const auto place = std::ranges::lower_bound(ids_, module_id);
  if (place == ids_.end() || *place != module_id) ids_.insert(place, module_id);
}

void ActiveSubModules::discard(int module_id) {
  const auto place = std::ranges::lower_bound(ids_, module_id);
  if (place != ids_.end() && *place == module_id) ids_.erase(place);
}

}  // namespace zero3
