// The console blocks of a document: commands, and the output that the document shows for them.
//
//     ```console
//     $ zero3sim try "t:ABC"
//     t:ABC on DeepSpeed 0.19.8, 1 rank: completes (as expected)
//     ...
//     ```
//
// A line "..." stands for any number of lines, none included; empty lines before the next command do not count. Only
// commands of zero3sim (also as build/bin/zero3sim) are run; a block may show others, such as scripts/demo, with theirs
// among their output. A block that opens with "```console deepspeed 0.15.2" needs that release installed.
#pragma once

#include <string>
#include <vector>

namespace zero3::cli_test {

struct ShownCommand {
  size_t line = 0;  // in the document, from 1
  std::string command;
  std::vector<std::string> output;
  bool of_zero3sim = false;
  std::string deepspeed;  // the release that must be installed, whose interpreter is $PY; "": none
};

// All of a document's, in order. What is wrong with its blocks goes to `defects`, as "line: what".
std::vector<ShownCommand> shown_commands(const std::string& document, std::vector<std::string>& defects);

// "" if the output is as shown; else the first shown line that it does not have where it should.
std::string difference(const std::vector<std::string>& shown, const std::vector<std::string>& output);

}  // namespace zero3::cli_test
