// A session with a probe that behaves, and with one that does not.
#include "sim/verify/probe_session.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/run_file/run_file.h"
#include "tests/sim/verify/real_traces.h"

namespace zero3::sim {
namespace {

using ::testing::HasSubstr;
using Kind = ProbeAnswer::Kind;

class Fake : public ::testing::Test {
 protected:
  void SetUp() override { setenv("FAKE_PROBE_TRACE", kRealTracePath, 1); }
  void TearDown() override {
    for (const char* name : {"FAKE_PROBE", "FAKE_PROBE_TRACE", "FAKE_PROBE_ONCE"}) unsetenv(name);
  }

  // Short, for a probe that hangs is waited for.
  static ProbeSession session(const std::string& behaviour, double margin_s = 60) {
    setenv("FAKE_PROBE", behaviour.c_str(), 1);
    return ProbeSession({.python = "tests/sim/verify/fake_probe", .timeout_s = 0.1, .margin_s = margin_s});
  }

  static std::string refusal(const std::string& behaviour) {
    try {
      session(behaviour);
    } catch (const ProbeUnavailable& error) {
      return error.what();
    }
    return "started";
  }

  const std::string run_file = write_run(real_experiment(), kRealProgram, 0);
};

TEST_F(Fake, AnswersOneRunAfterTheOther) {
  ProbeSession probe = session("");
  EXPECT_EQ(probe.info().deepspeed, "0.15.2");
  EXPECT_EQ(probe.info().torch, "2.15.0");
  ProbeSession other = session("release=0.9.5");
  for (int i = 0; i < 3; ++i) {
    const ProbeAnswer answer = probe.run(run_file);
    EXPECT_EQ(answer.kind, Kind::kTrace) << answer.text;
    EXPECT_TRUE(answer.trace.whole);
  }
  EXPECT_EQ(other.info().deepspeed, "0.9.5");
  EXPECT_EQ(other.run(run_file).kind, Kind::kTrace);
}

TEST_F(Fake, DiesInTheMiddleAndIsStartedAgain) {
  const std::filesystem::path once = std::filesystem::temp_directory_path() / "zero3sim-fake-probe-once";
  std::filesystem::remove(once);
  setenv("FAKE_PROBE_ONCE", once.c_str(), 1);
  ProbeSession probe = session("dies");
  const ProbeAnswer answer = probe.run(run_file);
  EXPECT_EQ(answer.kind, Kind::kDied);
  EXPECT_THAT(answer.text, HasSubstr("the probe died: exit status 9\nfake: out of memory"));
  EXPECT_FALSE(answer.trace.whole);
  EXPECT_EQ(answer.trace.rank(0)->statements.front().text, "t:ABC");
  EXPECT_EQ(probe.run(run_file).kind, Kind::kTrace);
  std::filesystem::remove(once);
}

TEST_F(Fake, Hangs) {
  ProbeSession probe = session("hangs", 0.1);
  const ProbeAnswer answer = probe.run(run_file);
  EXPECT_EQ(answer.kind, Kind::kHung);
  EXPECT_THAT(answer.text, HasSubstr("did not answer within 0.2 s"));
}

TEST_F(Fake, PrintsWhatIsNoTrace) {
  const ProbeAnswer garbage = session("garbage").run(run_file);
  EXPECT_EQ(garbage.kind, Kind::kGarbage);
  EXPECT_THAT(garbage.text, HasSubstr("not a line of a trace"));
  EXPECT_THAT(garbage.text, HasSubstr("Traceback (most recent call last):"));
  const ProbeAnswer newer = session("newer-trace").run(run_file);
  EXPECT_EQ(newer.kind, Kind::kGarbage);
  EXPECT_THAT(newer.text, HasSubstr("a trace of version 99; this zero3sim reads up to 1"));
}

TEST_F(Fake, DoesNotStart) {
  EXPECT_THAT(refusal("no-module"),
              HasSubstr("tests/sim/verify/fake_probe has no zero3probe\n  install it there: "
                        "tests/sim/verify/fake_probe -m pip install ./probe"));
  EXPECT_THAT(refusal("unavailable"),
              HasSubstr("cannot run DeepSpeed: zero3probe: No module named 'deepspeed'"));
  EXPECT_THAT(refusal("silent"), HasSubstr("does not start: exit status 1"));
  EXPECT_THAT(refusal("chatter"),
              HasSubstr("its first line is not a probe's: Setting ds_accelerator to cpu"));
  EXPECT_THAT(refusal("newer-probe"), HasSubstr("it speaks version 99 of the protocol"));
}

TEST(ProbeSession, NeedsAnInterpreter) {
  try {
    ProbeSession({.python = "/nowhere/python"});
    FAIL();
  } catch (const ProbeUnavailable& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot start /nowhere/python: No such file or directory"));
  }
}

}  // namespace
}  // namespace zero3::sim
