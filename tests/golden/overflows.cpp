#include "tests/golden/overflows.h"

#include <array>

namespace zero3::golden {
namespace {

struct Overflow {
  const char* block;
  const char* files;  // separated by spaces
  size_t first_statement;
};
constexpr auto kOverflows = std::to_array<Overflow>({
    {"N3011.15", "v0.4.4 v0.5.10 v0.6.0 v0.6.4 v0.9.5 v0.10.0", 3},
    {"N3011.26", "v0.4.4 v0.5.10 v0.6.0 v0.6.4 v0.9.5 v0.10.0", 2},
    {"N3011.29", "v0.4.4 v0.5.10", 4},
});

}  // namespace

void mark_overflows(const std::string& name, const std::string& file, sim::Program& program) {
  for (const Overflow& overflow : kOverflows) {
    const std::string release = file.substr(file.rfind('/') + 1, file.find(".nested") - file.rfind('/') - 1);
    if (name != overflow.block) continue;
    if ((" " + std::string(overflow.files) + " ").find(" " + release + " ") == std::string::npos) continue;
    for (size_t i = overflow.first_statement; i < program.size(); ++i) {
      for (sim::Op& op : program[i].ops) op.overflow = op.kind == sim::OpKind::kStep;
    }
  }
}

}  // namespace zero3::golden
