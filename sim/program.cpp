#include "sim/program.h"

#include <set>

namespace zero3::sim {

std::vector<std::vector<std::string>> default_child_names(const ModelSpec& model) {
  std::vector<std::vector<std::string>> names;
  for (const ModuleSpec& module : model.modules) {
    std::set<std::string> taken;
    std::vector<std::string>& own = names.emplace_back();
    for (const int child : module.children) {
      const std::string& qualified = model.modules[static_cast<size_t>(child)].name;
      const std::string base = qualified.substr(qualified.rfind('.') + 1);
      std::string name = base;
      for (int i = 2; !taken.insert(name).second; ++i) name = base + "_" + std::to_string(i);
      own.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace zero3::sim
