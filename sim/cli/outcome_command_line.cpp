#include "sim/cli/outcome_command_line.h"

#include <charconv>
#include <map>
#include <set>
#include <string>

#include "sim/cli/checks.h"

namespace zero3::sim::cli {
namespace {

const std::map<std::string, TableFormat>& table_formats() {
  static const std::map<std::string, TableFormat> kFormats = {{"text", TableFormat::kText},
                                                              {"markdown", TableFormat::kMarkdown},
                                                              {"json", TableFormat::kJson},
                                                              {"junit", TableFormat::kJunit},
                                                              {"html", TableFormat::kHtml}};
  return kFormats;
}

// The formats of these names; others are refused.
void add_format(CLI::App& command, TableFormat& format, const std::set<std::string>& names,
                const std::string& help) {
  command
      .add_option_function<std::string>(
          "--format", [&format](const std::string& word) { format = table_formats().at(word); },
          help + " (default: text)")
      ->check(CLI::IsMember(names).description(""));
}

CLI::Option* add_programs(CLI::App& command, ProgramArguments& arguments) {
  CLI::Option* files =
      command.add_option("files", arguments.paths, "Scenario and run files, or folders of them");
  command.add_option("--ranks", arguments.ranks, "World size (default: the scenario's)")
      ->check(CLI::Range(1, kMaxRanks));
  command
      .add_option_function<std::string>(
          "--seed",
          [&arguments](const std::string& word) {
            uint64_t seed = 0;
            std::from_chars(word.data(), word.data() + word.size(), seed);
            arguments.seed = seed;
          },
          "Seed of the program's choices and of hash order (default: the scenario's)")
      ->check(seed_number());
  return files;
}

void add_out(CLI::App& command, std::string& out) {
  command.add_option("--out", out, "Write to this file (default: standard output)")->check(filled());
}

}  // namespace

void add_matrix(CLI::App& app, MatrixArguments& arguments, std::function<Verdict()>& chosen) {
  CLI::App* command =
      app.add_subcommand("matrix", "Which program does what on which release (docs/matrix.md)");
  add_programs(*command, arguments.programs)->required();
  command
      ->add_option("--deepspeed", arguments.deepspeed, "Releases: 0.15.2, '0.6.0 - 0.15.2', '>= 0.15.3', all")
      ->check(filled())
      ->capture_default_str();
  add_format(*command, arguments.format, {"text", "markdown", "json", "junit", "html"},
             "text, markdown, json, junit or html");
  add_out(*command, arguments.out);
  command->callback([&arguments, &chosen] { chosen = [&arguments] { return show_matrix(arguments); }; });
}

void add_bisect(CLI::App& app, BisectArguments& arguments, std::function<Verdict()>& chosen) {
  CLI::App* command = app.add_subcommand(
      "bisect", "Which release made a program bad, which pull request, which flag (docs/bisect.md)");
  add_programs(*command, arguments.programs)->required();
  command->add_option("--good", arguments.good, "A release on which all is well")
      ->required()
      ->check(filled());
  command->add_option("--bad", arguments.bad, "One on which it is not, newer or older")
      ->required()
      ->check(filled());
  command
      ->add_option_function<std::string>(
          "--format",
          [&arguments](const std::string& word) {
            arguments.format = word == "json" ? Format::kJson : Format::kText;
          },
          "text or json (default: text)")
      ->check(CLI::IsMember({"text", "json"}).description(""));
  command->callback([&arguments, &chosen] { chosen = [&arguments] { return show_bisection(arguments); }; });
}

void add_upgrade(CLI::App& app, UpgradeArguments& arguments, std::function<Verdict()>& chosen) {
  CLI::App* command =
      app.add_subcommand("upgrade", "What an upgrade changes for these programs (docs/upgrade.md)");
  add_programs(*command, arguments.programs)->required();
  command->add_option("--from", arguments.from, "The release in use")->required()->check(filled());
  command->add_option("--to", arguments.to, "The release to come")->required()->check(filled());
  command->add_flag("--strict", arguments.strict,
                    "More all-gathers, more elements gathered or a higher peak is worse, too");
  add_format(*command, arguments.format, {"text", "json", "junit"}, "text, json or junit");
  add_out(*command, arguments.out);
  command->callback([&arguments, &chosen] { chosen = [&arguments] { return show_upgrade(arguments); }; });
}

void add_regress(CLI::App& app, RegressArguments& arguments, std::function<Verdict()>& chosen) {
  constexpr double kMaxTimeout = 1e6;
  CLI::App* command =
      app.add_subcommand("regress", "Compare today's outcomes with a stored baseline (docs/regress.md)");
  command->add_option("baseline", arguments.baseline, "The baseline's file")->required()->check(filled());
  add_programs(*command, arguments.programs);
  command
      ->add_option("--deepspeed", arguments.deepspeed,
                   "Releases: 0.15.2, '0.6.0 - 0.15.2', '>= 0.15.3', all (default: the baseline's; with "
                   "--write the newest)")
      ->check(filled());
  command
      ->add_option("--python", arguments.python,
                   "Also hold the DeepSpeed of this Python interpreter against its model")
      ->check(filled());
  command
      ->add_option("--timeout", arguments.timeout_s,
                   "Seconds after which a run of real DeepSpeed counts as hanging")
      ->check(CLI::Range(0.1, kMaxTimeout))
      ->check(a_number())
      ->capture_default_str();
  CLI::Option* write =
      command->add_flag("--write", arguments.write, "Write the baseline: today's outcomes, nothing accepted");
  command->add_flag("--accept", arguments.accept, "Write the differences into the baseline's accepted list")
      ->excludes(write);
  add_format(*command, arguments.format, {"text", "json", "junit"}, "text, json or junit");
  add_out(*command, arguments.out);
  command->callback([&arguments, &chosen] { chosen = [&arguments] { return regress(arguments); }; });
}

}  // namespace zero3::sim::cli
