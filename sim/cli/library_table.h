// Many scenarios at once: one line each of whether every release does what its file expects.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/release.h"
#include "sim/backends/backend.h"
#include "sim/cli/common.h"
#include "sim/scenario/scenario.h"
#include "sim/verdict.h"

namespace zero3::sim::cli {

// How a run differs from what is expected of its release; "" if it does not. A run that completes with wrong data
// does.
std::string difference_of(const Expectation& expected, const Outcome& outcome);

// A scenario on the releases asked for.
struct LibraryRow {
  std::string path;
  int ranks = 1;
  uint64_t seed = 0;
  std::vector<Release> as_expected = {};
  std::vector<Release> unsaid = {};  // the file expects nothing of them
  std::vector<Release> lacking =
      {};  // without something that the program uses; the file expects nothing of them
  // How releases differ, oldest first; a hang of which nothing is expected among them.
  std::vector<std::pair<std::string, std::vector<Release>>> differing = {};
  // The worst of all releases. One of which nothing is expected decides nothing, unless there is no other, or it hangs.
  Verdict verdict = Verdict::kInconclusive;
};

// Gives the outcome of an experiment on a release, also where the release lacks something that it uses.
using Outcomes = std::function<Outcome(const Experiment& experiment, const Release& release, uint64_t seed)>;

// Throws BadInput where the file expects something of a release that cannot run the scenario.
LibraryRow judged(const Scenario& scenario, const std::vector<Release>& releases, int ranks, uint64_t seed,
                  const Outcomes& outcomes);

// Of rows judged on this backend.
std::string library_table(const std::vector<LibraryRow>& rows, const std::vector<Release>& releases,
                          const Backend& backend);

}  // namespace zero3::sim::cli
