// Every option with its help and its limits; those of matrix and its like are in outcome_command_line.cpp, those of
// backends in backend_command_line.cpp.
#include "sim/cli/command_line.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>

#include <CLI/CLI.hpp>

#include "sim/bad_input.h"
#include "sim/cli/backend_command_line.h"
#include "sim/cli/checks.h"
#include "sim/cli/commands.h"
#include "sim/cli/outcome_command_line.h"
#include "sim/verify/probe_session.h"

namespace zero3::sim::cli {
namespace {

constexpr int64_t kMaxNumel = int64_t{1} << 62;
constexpr const char* kReleasesHelp =
    "Releases: 0.15.2, '0.6.0 - 0.15.2', '>= 0.15.3', all (default: the newest)";

using Command = std::function<Verdict()>;

std::string check_flag(std::string& word) {
  return word == "0" || word == "1" ? "" : "'" + word + "' is neither 0 nor 1";
}

const CLI::Validator kZeroOrOne(check_flag, "");

void add_format_option(CLI::App& command, Format& format) {
  command
      .add_option_function<std::string>(
          "--format",
          [&format](const std::string& word) { format = word == "json" ? Format::kJson : Format::kText; },
          "text or json (default: text)")
      ->check(CLI::IsMember({"text", "json"}).description(""));
}

void add_output_options(CLI::App& command, Format& format, std::string& trace) {
  add_format_option(command, format);
  command.add_option("--trace", trace, "Write every event to this file (docs/trace-format.md)")
      ->check(filled());
}

void add_run(CLI::App& app, RunArguments& arguments, Command& chosen) {
  CLI::App* command = app.add_subcommand("run", "Run scenario files on the models of DeepSpeed releases");
  command->add_option("files", arguments.paths, "Scenario files, or folders of them")->required();
  command->add_option("--deepspeed", arguments.deepspeed, kReleasesHelp)->check(filled());
  command->add_option("--ranks", arguments.ranks, "World size (default: the scenario's)")
      ->check(CLI::Range(1, kMaxRanks));
  CLI::Option* seed = command->add_option(
      "--seed", arguments.seed, "Seed of the program's choices and of hash order (default: the scenario's)");
  seed->check(seed_number());
  add_output_options(*command, arguments.format, arguments.trace);
  add_backend_options(*command, arguments.backend);
  command->callback([&arguments, &chosen, seed] {
    arguments.seed_given = seed->count() > 0;
    chosen = [&arguments] { return run_scenarios(arguments); };
  });
}

// The model and settings of a program in the short form.
void add_short_form_settings(CLI::App* command, TryArguments& arguments) {
  ShortFormOptions& options = arguments.options;
  const auto size = [command](const char* name, int64_t& value, const char* help) {
    command->add_option(name, value, help)->check(CLI::Range(int64_t{0}, kMaxNumel))->capture_default_str();
  };
  command->add_option("--gas", options.gradient_accumulation_steps, "gradient_accumulation_steps")
      ->check(CLI::Range(1, kMaxAccumulation))
      ->capture_default_str();
  size("--prefetch", options.prefetch_bucket_numel, "stage3_prefetch_bucket_size, elements");
  size("--reuse", options.max_reuse_distance_numel, "stage3_max_reuse_distance, elements");
  size("--live", options.max_live_numel, "stage3_max_live_parameters, elements");
  size("--persist", options.param_persistence_threshold_numel,
       "stage3_param_persistence_threshold, elements");
  command
      ->add_option("--input-grad", options.input_requires_grad, "1: the model's input requires grad, 0: not")
      ->check(kZeroOrOne)
      ->default_str("1");
  command
      ->add_option("--dup", options.dup, "This module is also registered under a second, never-called parent")
      ->check(filled());
  command->add_flag_callback(
      "--no-optimizer", [&options] { options.with_optimizer = false; }, "An engine without optimizer");
  command->add_flag("--log-trace-cache-warnings", options.log_trace_cache_warnings,
                    "log_trace_cache_warnings (v0.16.4 and later)");
  command->add_option("--model", arguments.model, "A nested model, as JSON (docs/short-form.md)")
      ->check(filled());
}

// And its ranks and seed. Hands back --ranks and --seed.
std::pair<CLI::Option*, CLI::Option*> add_short_form_options(CLI::App* command, TryArguments& arguments) {
  add_short_form_settings(command, arguments);
  CLI::Option* ranks = command->add_option("--ranks", arguments.options.ranks, "World size");
  ranks->check(CLI::Range(1, kMaxRanks))->capture_default_str();
  CLI::Option* seed = command->add_option("--seed", arguments.seed, "Seed of hash order; 0: by ds_id");
  seed->check(seed_number())->capture_default_str();
  return {ranks, seed};
}

void add_try(CLI::App& app, TryArguments& arguments, Command& chosen) {
  CLI::App* command = app.add_subcommand("try", "Run a program in the short form: \"t:ABC t:ABC t:AC\"");
  command->add_option("program", arguments.program, "Tokens, see docs/short-form.md")->required();
  command->add_option("--deepspeed", arguments.deepspeed, kReleasesHelp)->check(filled());
  CLI::Option* ranks = add_short_form_options(command, arguments).first;
  command->add_flag("--events", arguments.events, "Print every event, in the notation of the recorded runs");
  add_output_options(*command, arguments.format, arguments.trace);
  add_backend_options(*command, arguments.backend);
  command->callback([&arguments, &chosen, ranks] {
    arguments.ranks_given = ranks->count() > 0;
    chosen = [&arguments] { return try_program(arguments); };
  });
}

// The options of `command` that only a program in the short form has need it; those in `others` do not.
void bind_to_program(CLI::App* command, CLI::Option* program, const std::vector<CLI::Option*>& others) {
  for (CLI::Option* option : command->get_options()) {
    const bool of_all = std::ranges::find(others, option) != others.end();
    if (!of_all && option != program && option != command->get_help_ptr()) option->needs(program);
  }
}

void add_replay(CLI::App& app, ReplayArguments& arguments, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("replay", "What releases do with a recorded run (docs/replay.md), or any run file");
  command->add_option("file", arguments.path, "A run file")->required()->check(filled());
  command->add_option("--deepspeed", arguments.deepspeed, kReleasesHelp)->check(filled());
  add_output_options(*command, arguments.format, arguments.trace);
  add_backend_options(*command, arguments.backend);
  command->callback([&arguments, &chosen] { chosen = [&arguments] { return replay(arguments); }; });
}

void add_fixes(CLI::App& app, FixesArguments& arguments, Command& chosen) {
  CLI::App* command = app.add_subcommand("fixes", "Try what might cure a program (docs/fixes.md)");
  command->add_option("files", arguments.paths, "Scenario and run files, or folders of scenarios")
      ->required();
  command
      ->add_option("--deepspeed", arguments.deepspeed,
                   "Releases: 0.15.2, '0.6.0 - 0.15.2', '>= 0.15.3', all (default: the newest that fails)")
      ->check(filled());
  command->add_option("--ranks", arguments.ranks, "World size (default: the program's)")
      ->check(CLI::Range(1, kMaxRanks));
  CLI::Option* seed = command->add_option(
      "--seed", arguments.seed, "Seed of the program's choices and of hash order (default: the program's)");
  seed->check(seed_number());
  CLI::Option* fix = command->add_option("--fix", arguments.fix, "Report this fix alone");
  fix->check(filled());
  command
      ->add_option("--write", arguments.write,
                   "Write the program with that fix to this file, and then its counterexample, as runs")
      ->check(filled())
      ->needs(fix);
  add_format_option(*command, arguments.format);
  command->callback([&arguments, &chosen, seed] {
    arguments.seed_given = seed->count() > 0;
    chosen = [&arguments] { return try_fixes(arguments); };
  });
}

void add_ids(CLI::App& app, IdsArguments& arguments, Command& chosen) {
  constexpr int kMaxId = 1 << 30;
  CLI::App* command =
      app.add_subcommand("ids", "The ids that DeepSpeed gives a model's modules and params (docs/ids.md)");
  command->add_option("file", arguments.path, "A config.json of Hugging Face, a scenario or a run file")
      ->required()
      ->check(filled());
  command->add_option("--deepspeed", arguments.deepspeed, "The release, as in 0.15.2 (default: the newest)")
      ->check(filled());
  command
      ->add_option("--transformers", arguments.transformers,
                   "Major version whose classes: 4 or 5 (default: the config.json's own, else 4)")
      ->check(CLI::Range(4, 5));
  command->add_option("--module", arguments.module, "The module of this id alone")
      ->check(CLI::Range(0, kMaxId));
  command->add_option("--param", arguments.param, "The param of this ds_id alone")
      ->check(CLI::Range(0, kMaxId));
  command
      ->add_option("--persist", arguments.persist,
                   "stage3_param_persistence_threshold, elements (default: the file's, else DeepSpeed's)")
      ->check(CLI::Range(int64_t{0}, kMaxNumel));
  add_format_option(*command, arguments.format);
  command->callback([&arguments, &chosen] { chosen = [&arguments] { return show_ids(arguments); }; });
}

void add_unroll(CLI::App& app, UnrollArguments& arguments, Command& chosen) {
  CLI::App* command = app.add_subcommand("unroll", "Write a scenario as a run file (docs/run-format.md)");
  CLI::Option* file = command->add_option("file", arguments.path, "A scenario file, or a run file");
  file->check(filled());
  CLI::Option* program =
      command->add_option("--program", arguments.short_form.program, "A program in the short form instead");
  program->check(filled())->excludes(file);
  const std::pair<CLI::Option*, CLI::Option*> both = add_short_form_options(command, arguments.short_form);
  CLI::Option* ranks = both.first;
  CLI::Option* seed = both.second;
  bind_to_program(command, program, {file, ranks, seed});
  command->add_option("-o,--output", arguments.out, "File to write (default: standard output)")
      ->check(filled());
  command->callback([&arguments, &chosen, ranks, seed] {
    arguments.ranks_given = ranks->count() > 0;
    arguments.seed_given = seed->count() > 0;
    chosen = [&arguments] { return unroll(arguments); };
  });
}

void add_verify(CLI::App& app, VerifyArguments& arguments, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("verify", "Hold real DeepSpeed against the model of its release (docs/verify.md)");
  CLI::Option* files =
      command->add_option("files", arguments.paths, "Scenario and run files, or folders of scenarios");
  CLI::Option* program =
      command->add_option("--program", arguments.short_form.program, "A program in the short form instead");
  program->check(filled())->excludes(files);
  add_short_form_settings(command, arguments.short_form);
  bind_to_program(command, program, {files});
  CLI::Option* python = command->add_option("--python", arguments.python,
                                            "The Python interpreter that has DeepSpeed and zero3probe");
  python->check(filled());
  CLI::Option* ranks =
      command->add_option("--ranks", arguments.ranks, "World sizes, with commas (default: the scenario's)");
  ranks->delimiter(',')->check(CLI::Range(1, kMaxRanks));
  CLI::Option* seed = command->add_option("--seed", arguments.seed,
                                          "Seed of the program's choices (default: the scenario's)");
  seed->check(seed_number());
  CLI::Option* timeout = command->add_option("--timeout", arguments.timeout_s,
                                             "Seconds after which a run of real DeepSpeed counts as hanging");
  timeout->check(CLI::Range(0.1, 1e6))->check(a_number())->capture_default_str();
  CLI::Option* trace =
      command->add_option("--trace", arguments.trace,
                          "No Python: hold this trace of real DeepSpeed against the model of its release");
  trace->check(filled());
  for (CLI::Option* other : {python, program, ranks, seed, timeout}) trace->excludes(other);
  command->add_option("--junit", arguments.junit, "Write the results to this file, in JUnit's XML")
      ->check(filled());
  add_format_option(*command, arguments.format);
  command->callback([&arguments, &chosen, seed] {
    arguments.seed_given = seed->count() > 0;
    chosen = [&arguments] { return verify_programs(arguments); };
  });
}

void add_fuzz(CLI::App& app, FuzzArguments& arguments, Command& chosen) {
  constexpr int kMaxFuzzRanks = 64;
  constexpr int kMaxJobs = 256;
  constexpr double kMaxTimeout = 86400;
  FuzzOptions& options = arguments.options;
  CLI::App* command = app.add_subcommand(
      "fuzz", "Run random programs on an installed DeepSpeed and on its model, and shrink what differs");
  command
      ->add_option("--python", arguments.python, "The Python interpreter that has DeepSpeed and zero3probe")
      ->check(filled());
  command->add_option("--programs", options.programs, "How many programs")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32U))
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Seed of the programs")
      ->check(seed_number())
      ->capture_default_str();
  command->add_option("--first", options.first, "Number of the first program: to go on where a run ended")
      ->check(seed_number())
      ->capture_default_str();
  command
      ->add_option(
          "--ranks", options.ranks,
          "World sizes, as in 1,2: a program in ten runs on each but the first, the others on the first")
      ->delimiter(',')
      ->expected(1, 10)
      ->check(CLI::Range(1, kMaxFuzzRanks))
      ->default_str("1");
  command->add_option("--jobs", options.jobs, "Probes that run at the same time")
      ->check(CLI::Range(1, kMaxJobs))
      ->capture_default_str();
  command->add_option("--timeout", arguments.timeout_s, "Seconds after which a program hangs")
      ->check(CLI::Range(0.1, kMaxTimeout))
      ->check(a_number())
      ->capture_default_str();
  command->add_option("--out", arguments.out, "Folder for programs that differ, with both traces")
      ->check(filled())
      ->capture_default_str();
  command->add_flag("--statistics", arguments.statistics,
                    "Run nothing for real: print what the programs are made of and how the model ends them");
  command
      ->add_option("--deepspeed", arguments.deepspeed, "The release, for --statistics (default: the newest)")
      ->check(filled());
  add_format_option(*command, arguments.format);
  command->callback([&arguments, &chosen] { chosen = [&arguments] { return fuzz_programs(arguments); }; });
}

void add_races(CLI::App& app, RacesArguments& arguments, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "races",
      "Threads in the backward hook of one leaf module: every order of their steps (docs/leaf-races.md)");
  CLI::Option* file = command->add_option("file", arguments.path, "A scenario file");
  file->check(filled());
  CLI::Option* program =
      command->add_option("--program", arguments.short_form.program, "A program in the short form instead");
  program->check(filled())->excludes(file);
  add_short_form_settings(command, arguments.short_form);
  bind_to_program(command, program, {file});
  command->add_option("--deepspeed", arguments.deepspeed, kReleasesHelp)->check(filled());
  CLI::Option* ranks = command->add_option("--ranks", arguments.short_form.options.ranks,
                                           "World size (default: the scenario's; else 1)");
  ranks->check(CLI::Range(1, kMaxRanks));
  command
      ->add_option("--module", arguments.race.module,
                   "The leaf module (default: the first that returns several tensors)")
      ->check(filled());
  CLI::Option* threads =
      command->add_option("--threads", arguments.race.threads, "Threads that run its hook at the same time");
  threads->check(CLI::Range(1, kMaxRaceThreads))->capture_default_str();
  command->add_option("--params", arguments.race.params, "How many of its params are explored")
      ->check(CLI::Range(1, kMaxRaceParams))
      ->capture_default_str();
  command->add_flag("--prefetched", arguments.race.prefetched,
                    "Its params are in flight already: a prefetch has launched their all-gather");
  command
      ->add_option("--order", arguments.order,
                   "This order alone: the thread of each step, as in 1,1,2 (default: every order)")
      ->check(filled());
  add_format_option(*command, arguments.format);
  command->callback([&arguments, &chosen, ranks, threads] {
    arguments.ranks_given = ranks->count() > 0;
    arguments.race.threads_given = threads->count() > 0;
    chosen = [&arguments] { return races(arguments); };
  });
}

// Bad usage is bad input; asking for help is not.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  app.exit(error);
  const bool asked_for_help = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
  return asked_for_help ? 0 : exit_code(Verdict::kBadInput);
}

// Tells what is thrown, and hands back the exit code.
int ending(const std::function<int()>& command) {
  try {
    return command();
  } catch (const JobFailed& failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return exit_code(failed.verdict());
  } catch (const BackendUnavailable& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return exit_code(Verdict::kBackendUnavailable);
  } catch (const BadInput& error) {
    std::fprintf(stderr, "%s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return exit_code(Verdict::kBadInput);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{
      "DeepSpeed ZeRO-3's parameter coordinator, as every release behaves: reproduce a failure, see why, and "
      "which "
      "release cures it.",
      "zero3sim"};
  app.footer(
      "Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 hang, 4 inconclusive, 5 backend "
      "unavailable.");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", "zero3sim " ZERO3SIM_VERSION);
  RunArguments run;
  TryArguments short_form;
  FuzzArguments random;
  std::vector<std::string> listed = {"scenarios"};
  std::string release;
  Command chosen;
  add_run(app, run, chosen);
  add_try(app, short_form, chosen);
  UnrollArguments unrolled;
  add_unroll(app, unrolled, chosen);
  IdsArguments numbered;
  add_ids(app, numbered, chosen);
  FixesArguments fixes;
  add_fixes(app, fixes, chosen);
  ReplayArguments replayed;
  add_replay(app, replayed, chosen);
  VerifyArguments verified;
  add_verify(app, verified, chosen);
  add_fuzz(app, random, chosen);
  RacesArguments raced;
  add_races(app, raced, chosen);
  MatrixArguments tabulated;
  add_matrix(app, tabulated, chosen);
  BisectArguments bisected;
  add_bisect(app, bisected, chosen);
  UpgradeArguments upgraded;
  add_upgrade(app, upgraded, chosen);
  RegressArguments regressed;
  add_regress(app, regressed, chosen);
  CLI::App* list = app.add_subcommand("list", "List scenarios with their titles and sources");
  list->add_option("paths", listed, "Files or folders")->capture_default_str();
  list->callback([&] { chosen = [&] { return list_scenarios(listed); }; });
  CLI::App* releases = app.add_subcommand("releases", "The modelled releases by era, or one release's flags");
  releases->add_option("release", release, "For example 0.15.2");
  releases->callback([&] { chosen = [&] { return show_releases(release); }; });
  return ending([&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return report_usage(app, error);
    }
    if (!chosen)
      throw BadInput(
          "no command",
          "one of: run, try, fixes, replay, matrix, bisect, upgrade, regress, ids, unroll, verify, fuzz, "
          "races, list, releases; see zero3sim --help");
    return exit_code(chosen());
  });
}

}  // namespace zero3::sim::cli
