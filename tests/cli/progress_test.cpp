// Commands that take long show where they are: on a terminal alone, and it is gone when they end.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/shell.h"

namespace zero3::cli_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string kPrograms =
    "scenarios/controls/static-mlp.yaml scenarios/dynamic-graphs/deepspeed-5828.yaml";
const std::string kFake = "FAKE_PROBE_TRACE=tests/sim/verify/v0.15.2.skipped-layer.jsonl ";
const std::string kPython = " --python tests/sim/verify/fake_probe";

struct Watched {
  std::string command;
  std::string shown;
};

class Progress : public ::testing::TestWithParam<Watched> {};

TEST_P(Progress, OnATerminalAlone) {
  const Folder folder;
  std::string command = GetParam().command;
  const size_t place = command.find("FOLDER");
  if (place != std::string::npos) command.replace(place, 6, shell_quoted(folder.path("out")));
  // script, of util-linux, gives the command a terminal, of which standard output is not part here.
  const std::string typescript = shell_quoted(folder.path("typescript"));
  shell("script -qec " + shell_quoted(command + " > /dev/null") + " " + typescript + " < /dev/null");
  const std::string shown = read_file(folder.path("typescript"));
  EXPECT_THAT(shown, HasSubstr(GetParam().shown));
  EXPECT_THAT(shown.substr(0, shown.rfind("\nScript done")), EndsWith("\r\033[K")) << "cleared at the end";
  EXPECT_EQ(shell(command).errors, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, Progress,
    ::testing::Values(Watched{"zero3sim fixes " + kPrograms, "\r\033[K[2/2] deepspeed-5828"},
                      Watched{"zero3sim matrix " + kPrograms, "\r\033[K[2/2] deepspeed-5828"},
                      Watched{kFake + "zero3sim verify " + kPrograms + kPython,
                              "\r\033[K[2/2] deepspeed-5828, 1 rank"},
                      Watched{kFake + "zero3sim fuzz --programs 2 --seed 1 --out FOLDER" + kPython,
                              "\r2 of 2 programs: 0 agree, 2 differ"}));

}  // namespace
}  // namespace zero3::cli_test
