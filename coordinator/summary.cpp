#include "coordinator/summary.h"

namespace zero3 {
namespace {

std::string joined(std::span<const int64_t> ints) {
  std::string text;
  for (const int64_t value : ints) {
    if (!text.empty()) text += ", ";
    text += std::to_string(value);
  }
  return text;
}

std::string active_set(const ActiveSubModules& active) {
  if (active.empty()) return "set()";
  std::string text;
  for (const int id : active.ids()) text += (text.empty() ? "{" : ", ") + std::to_string(id);
  return text + "}";
}

}  // namespace

std::string python_list(std::span<const int64_t> ints) { return "[" + joined(ints) + "]"; }

std::string python_tuple(std::span<const int64_t> ints) {
  return "(" + joined(ints) + (ints.size() == 1 ? ",)" : ")");
}

std::string ds_summary(const Param& param, const Behaviour& behaviour, int world_size, bool debug_name) {
  const std::string id = std::to_string(param.ds_id);
  const std::string name = param.debug_name.empty() ? "unknown" : param.debug_name;
  const std::string shown_id = debug_name ? "'name=" + name + " id=" + id + "'" : id;
  const std::string full_shape = python_tuple(param.ds_shape);
  std::string text = "{'id': " + shown_id + ", 'status': '" + status_text(param.ds_status) + "'";
  text += ", 'numel': " + std::to_string(param.data_is_full ? param.ds_numel : 0);
  text += ", 'ds_numel': " + std::to_string(param.ds_numel);
  text += ", 'shape': " + (param.data_is_full ? full_shape : "(0,)") + ", 'ds_shape': " + full_shape;
  text += std::string(", 'requires_grad': ") + (param.requires_grad ? "True" : "False");
  text += ", 'grad_shape': " + (param.has_grad ? full_shape : "None");
  text += std::string(", 'persist': ") + (param.ds_persist ? "True" : "False");
  text += ", 'active_sub_modules': " + active_set(param.ds_active_sub_modules);
  if (behaviour.summary_has_partition_shape) {
    text += ", 'ds_tensor.shape': torch.Size([" + std::to_string(param.partition_numel(world_size)) + "])";
  }
  return text + "}";
}

std::string parameter_repr(const Param& param) {
  const bool shown = param.data_is_full && param.ds_numel > 0;
  std::string brackets = "[";
  std::string closing = "]";
  for (size_t i = 1; shown && i < param.ds_shape.size(); ++i) {
    brackets += "[";
    closing += "]";
  }
  return "Parameter containing:\ntensor(" + brackets + (shown ? "..." : "") + closing +
         (param.requires_grad ? ", requires_grad=True)" : ")");
}

}  // namespace zero3
