#include "sim/backends/standing.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/fnv1a.h"
#include "sim/run_file/run_file.h"

namespace zero3::sim {

using nlohmann::json;

std::string to_text(const Standing& standing) {
  const json out = {{"next", standing.next}, {"error", standing.error}, {"verdict", standing.verdict}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Standing standing_of(const std::string& text) {
  const json in = json::parse(text);
  return {in.at("next").get<std::string>(), in.at("error").get<std::string>(),
          in.at("verdict").get<Verdict>()};
}

Standing agreed_on(const std::vector<Standing>& by_rank) {
  const Standing& first = by_rank.front();
  if (std::ranges::all_of(by_rank, [&](const Standing& one) { return one == first; })) return first;
  Standing wrong = first;
  wrong.error.clear();
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Standing& one = by_rank[rank];
    if (one.error.empty()) continue;
    wrong.error += fmt::format("{}rank {}: {}", wrong.error.empty() ? "" : "\n", rank, one.error);
    wrong.verdict = wrong.verdict == Verdict::kAsExpected ? one.verdict : wrong.verdict;
  }
  if (!wrong.error.empty()) return wrong;
  const auto other = std::ranges::find_if(by_rank, [&](const Standing& one) { return one != first; });
  wrong.verdict = Verdict::kBadInput;
  wrong.error = fmt::format(
      "error: rank {} is not about to do what rank 0 is: the processes of a job need the same zero3sim, "
      "arguments "
      "and files\n  rank 0: {}\n  rank {}: {}",
      other - by_rank.begin(), first.next, other - by_rank.begin(), other->next);
  return wrong;
}

std::string binary_text() {
  std::ifstream executable("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(executable), {}};
  return fmt::format("zero3sim {} ({:016x})", ZERO3SIM_VERSION, fnv1a(bytes));
}

std::string run_text(const Experiment& experiment, const std::string& release, uint64_t seed) {
  return fmt::format("run program {:016x} on DeepSpeed {}, seed {}", fnv1a(write_run(experiment, "", seed)),
                     release, seed);
}

}  // namespace zero3::sim
