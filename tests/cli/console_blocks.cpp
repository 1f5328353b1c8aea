#include "tests/cli/console_blocks.h"

#include <algorithm>
#include <string_view>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

bool runs_zero3sim(std::string_view command) {
  return command.starts_with("zero3sim ") || command.starts_with("build/bin/zero3sim ") ||
         command.starts_with("mpirun ");
}

std::string trimmed(const std::string& line) { return line.substr(0, line.find_last_not_of(" \t\r") + 1); }

constexpr std::string_view kDeepSpeed = "```console deepspeed ";

using Lines = std::vector<std::string>;

// Where `part` stands in `output` from `from` on; npos if nowhere.
size_t find_part(const Lines& output, const Lines& part, size_t from) {
  const auto found =
      std::search(output.begin() + static_cast<std::ptrdiff_t>(from), output.end(), part.begin(), part.end());
  if (found == output.end() && !part.empty()) return std::string::npos;
  return static_cast<size_t>(found - output.begin());
}

// The first line of `part` that `output` does not have when read from `from` on.
std::string first_missing(const Lines& output, const Lines& part, size_t from) {
  for (size_t i = 0; i < part.size(); ++i) {
    if (from + i >= output.size() || output[from + i] != part[i]) return part[i];
  }
  return "the end of the output";
}

}  // namespace

std::vector<ShownCommand> shown_commands(const std::string& document, Lines& defects) {
  std::vector<ShownCommand> commands;
  bool inside = false;
  size_t first_of_block = 0;
  std::string deepspeed;
  const Lines lines = lines_of(document);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (!inside) {
      inside = line == "```console" || line.starts_with(kDeepSpeed);
      deepspeed = line.starts_with(kDeepSpeed) ? line.substr(kDeepSpeed.size()) : "";
      first_of_block = commands.size();
    } else if (line.starts_with("```")) {
      inside = false;
      if (commands.size() == first_of_block)
        defects.push_back(std::to_string(i + 1) + ": a block without a command");
    } else if (line.starts_with("$ ")) {
      commands.push_back({i + 1, line.substr(2), {}, runs_zero3sim(line.substr(2)), deepspeed});
    } else if (commands.size() == first_of_block) {
      defects.push_back(std::to_string(i + 1) + ": output before the block's first command");
    } else {
      commands.back().output.push_back(trimmed(line));
    }
  }
  if (inside) defects.push_back(std::to_string(lines.size()) + ": a block without an end");
  for (ShownCommand& command : commands) {
    while (!command.output.empty() && command.output.back().empty()) command.output.pop_back();
    const bool shows_nothing =
        std::ranges::all_of(command.output, [](const auto& line) { return line == "..."; });
    if (command.of_zero3sim && shows_nothing)
      defects.push_back(std::to_string(command.line) + ": a command of zero3sim without output");
  }
  return commands;
}

std::string difference(const Lines& shown, const Lines& output) {
  Lines actual;
  for (const std::string& line : output) actual.push_back(trimmed(line));
  std::vector<Lines> parts(1);
  for (const std::string& line : shown) {
    if (line == "...") {
      parts.emplace_back();
    } else {
      parts.back().push_back(line);
    }
  }
  size_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Lines& part = parts[i];
    size_t place = i == 0 ? 0 : find_part(actual, part, at);
    if (i + 1 == parts.size() && i > 0)
      place = actual.size() < at + part.size() ? at : actual.size() - part.size();
    if (place == std::string::npos) return part.front();
    if (find_part(actual, part, place) != place) return first_missing(actual, part, place);
    at = place + part.size();
  }
  return parts.size() > 1 || at == actual.size() ? "" : "nothing after: " + shown.back();
}

}  // namespace zero3::cli_test
