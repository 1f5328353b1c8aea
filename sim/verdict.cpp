#include "sim/verdict.h"

#include <array>

namespace zero3::sim {
namespace {

struct Entry {
  std::string_view name;
  int exit_code;
  int weight;  // the higher decides
};
constexpr std::array<Entry, 6> kEntries = {{
    {"as expected", 0, 0},
    {"not as expected", 1, 4},
    {"bad input", 2, 5},
    {"hang", 3, 3},
    {"inconclusive", 4, 1},
    {"backend unavailable", 5, 2},
}};

const Entry& entry(Verdict verdict) { return kEntries[static_cast<size_t>(verdict)]; }

}  // namespace

std::string_view name(Verdict verdict) { return entry(verdict).name; }
int exit_code(Verdict verdict) { return entry(verdict).exit_code; }
Verdict worse(Verdict a, Verdict b) { return entry(a).weight >= entry(b).weight ? a : b; }

}  // namespace zero3::sim
