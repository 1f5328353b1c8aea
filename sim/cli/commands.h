// The commands of zero3sim as functions of their arguments. Each prints to standard output and gives the verdict that
// decides the exit code; bad input is thrown as BadInput. cli/command_line.cpp reads the arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/backends/backend.h"
#include "sim/cli/programs.h"
#include "sim/fuzz/fuzzer.h"
#include "sim/leaf_race/leaf_race.h"
#include "sim/short_form.h"
#include "sim/verdict.h"

namespace zero3::sim::cli {

enum class Format { kText, kJson };
enum class TableFormat { kText, kMarkdown, kJson, kJunit, kHtml };

struct RunArguments {
  std::vector<std::string> paths;  // scenario files, folders of them
  std::string deepspeed;           // empty: the newest release
  int ranks = 0;                   // 0: the scenario's own
  uint64_t seed = 0;
  bool seed_given = false;  // else the scenario's own
  Format format = Format::kText;
  std::string trace;  // file to write, or a folder for several runs; empty: none
  BackendOptions backend;
};

struct TryArguments {
  std::string program;
  std::string deepspeed;
  std::string model;  // file of a nested model; empty: Linear modules A to Z
  ShortFormOptions options;
  uint64_t seed = 0;
  bool events = false;
  Format format = Format::kText;
  std::string trace;
  BackendOptions backend;
  bool ranks_given = false;  // else those of the backend's job
};

struct UnrollArguments {
  std::string path;          // a scenario, or a run file; empty: the short form's program
  TryArguments short_form;   // its ranks and seed are those of a scenario too
  bool ranks_given = false;  // else the scenario's own
  bool seed_given = false;
  std::string out;  // file to write; empty: standard output
};

struct VerifyArguments {
  std::vector<std::string>
      paths;  // scenario and run files, folders of scenarios; empty: the short form's program
  TryArguments short_form;
  std::string python;      // the interpreter that has DeepSpeed
  std::string trace;       // what it left behind, instead of it; empty: none
  std::vector<int> ranks;  // empty: the scenario's own, 1 for the short form
  uint64_t seed = 0;
  bool seed_given = false;
  double timeout_s = 30;  // of one run
  std::string junit;      // file to write; empty: none
  Format format = Format::kText;
};

struct ReplayArguments {
  std::string path;       // a run file
  std::string deepspeed;  // empty: the newest release
  Format format = Format::kText;
  std::string trace;
  BackendOptions backend;
};

Verdict replay(const ReplayArguments& arguments);

struct FixesArguments {
  std::vector<std::string> paths;  // scenario and run files, folders of scenarios
  std::string deepspeed;           // empty: the newest release on which the program fails
  int ranks = 0;                   // 0: the program's own
  uint64_t seed = 0;
  bool seed_given = false;  // else the program's own
  std::string fix;          // this one alone; empty: all
  std::string write;        // file to write the changed program to; empty: none
  Format format = Format::kText;
};

Verdict try_fixes(const FixesArguments& arguments);

struct IdsArguments {
  std::string path;       // a config.json, a scenario or a run file
  std::string deepspeed;  // empty: the newest release
  int transformers = 0;   // major version; 0: the config.json's own
  std::optional<int> module;
  std::optional<int> param;
  std::optional<int64_t> persist;  // stage3_param_persistence_threshold, elements; none: the file's own
  Format format = Format::kText;
};

Verdict show_ids(const IdsArguments& arguments);

struct RacesArguments {
  std::string path;  // a scenario; empty: the short form's program
  TryArguments short_form;
  bool ranks_given = false;  // else the scenario's own
  std::string deepspeed;     // empty: the newest release
  RaceOptions race;
  std::string order;  // the thread of each step, as in 1,1,2; empty: every order
  Format format = Format::kText;
};

Verdict races(const RacesArguments& arguments);

struct FuzzArguments {
  std::string python;  // empty: none, for `statistics`
  FuzzOptions options;
  double timeout_s = 30;
  std::string out = "fuzz-out";
  Format format = Format::kText;
  bool statistics = false;  // of the programs alone; nothing runs for real
  std::string deepspeed;    // whose, for `statistics`; empty: the newest
};

struct MatrixArguments {
  ProgramArguments programs;
  std::string deepspeed = "all";
  TableFormat format = TableFormat::kText;
  std::string out;  // file to write; empty: standard output
};

Verdict show_matrix(const MatrixArguments& arguments);

struct BisectArguments {
  ProgramArguments programs;  // one
  std::string good;
  std::string bad;
  Format format = Format::kText;
};

Verdict show_bisection(const BisectArguments& arguments);

struct UpgradeArguments {
  ProgramArguments programs;
  std::string from;
  std::string to;
  bool strict = false;  // a cost that rises is worse, too
  TableFormat format = TableFormat::kText;
  std::string out;
};

Verdict show_upgrade(const UpgradeArguments& arguments);

struct RegressArguments {
  std::string baseline;       // a file
  ProgramArguments programs;  // no paths: the baseline's files
  std::string deepspeed;      // empty: the baseline's releases; to write: the newest
  std::string python;         // the interpreter that has DeepSpeed; empty: models alone
  double timeout_s = 30;
  bool write = false;
  bool accept = false;
  TableFormat format = TableFormat::kText;
  std::string out;
};

Verdict regress(const RegressArguments& arguments);

Verdict run_scenarios(const RunArguments& arguments);
Verdict try_program(const TryArguments& arguments);
Verdict unroll(const UnrollArguments& arguments);
Verdict verify_programs(const VerifyArguments& arguments);
// With --trace; verify_programs() hands it on.
Verdict verify_trace(const VerifyArguments& arguments);
Verdict fuzz_programs(const FuzzArguments& arguments);
Verdict list_scenarios(const std::vector<std::string>& paths);
// Of all releases if `release` is empty.
Verdict show_releases(const std::string& release);

// What a short form's program runs, on its own model or one of --model.
Experiment experiment_of(const TryArguments& arguments);

}  // namespace zero3::sim::cli
