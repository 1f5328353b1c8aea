// A scenario file: a failure (or its absence) to reproduce, with what is expected of each DeepSpeed release.
//
// The format is docs/scenario-format.md, version kScenarioVersion. A file is read whole and checked before anything
// runs; what is wrong in it is thrown as BadInput with its place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/release.h"
#include "sim/program.h"
#include "sim/scenario/expectation.h"
#include "sim/scenario/program.h"

namespace zero3::sim {

constexpr int kScenarioVersion = 1;

// Something that might cure the failure, to be tried one at a time (sim/fixes).
struct Fix {
  enum class Kind { kSetting, kProgram, kRelease };
  std::string name;
  Kind kind = Kind::kSetting;
  std::string value;  // as written, shortened
  Place place;
  std::optional<Settings> settings = {};  // kSetting: the scenario's own, with the fix's
  std::vector<Step> program = {};         // kProgram
  std::optional<ReleaseRange> releases = {};
};

struct Scenario {
  std::string path;
  std::string name;  // the file's name without .yaml where it gives none
  std::string title;
  std::string description;
  std::string source;        // "deepspeedai/DeepSpeed#5828"
  int ranks = 1;             // where the command line says nothing; so is the seed
  bool names_ranks = false;  // what is expected holds on that many alone
  uint64_t seed = 0;
  ScenarioModel model;
  Settings settings;
  bool input_requires_grad = false;
  std::vector<ScenarioEngine> engines;
  std::vector<Step> program;
  std::vector<Expectation> expectations;
  std::vector<Fix> fixes;
  std::vector<std::string> notes;  // settings that real DeepSpeed acts on and this model does not
  std::shared_ptr<const YamlFile> file;

  // Throws BadInput for a number of ranks below 1, or too small for the program.
  Experiment experiment(int world_size, uint64_t chosen_seed) const;
  Experiment experiment() const { return experiment(ranks, seed); }
  // With the program of one of its fixes instead of its own.
  Experiment experiment_with(const std::vector<Step>& steps, int world_size, uint64_t chosen_seed) const;
  // None: the file says nothing of that release.
  std::optional<Expectation> expected_for(const Release& release, int on_ranks) const;
};

Scenario load_scenario(const std::string& path);
Scenario parse_scenario(const std::string& path, const std::string& text);

// Throws BadInput at the first step or feature of the experiment that no engine of the release has, naming the release
// that brought it; not where the scenario expects just that failure. Precondition: is_known(release).
// can_run asks the same without throwing.
bool can_run(const Scenario& scenario, const Experiment& experiment, const Release& release);
void check_release(const Scenario& scenario, const Experiment& experiment, const Release& release);

}  // namespace zero3::sim
