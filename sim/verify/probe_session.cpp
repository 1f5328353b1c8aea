#include "sim/verify/probe_session.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/bad_input.h"
#include "sim/verify/trace_reader.h"

namespace zero3::sim {
namespace {

using nlohmann::json;
using Clock = ChildProcess::Clock;

constexpr int kProbeVersion = 1;
constexpr int kExitUnavailable = 5;
constexpr std::chrono::milliseconds kGrace{3000};  // for last words on stderr
constexpr size_t kShownLine = 100;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string shown(const std::string& line) {
  return line.size() <= kShownLine ? line : line.substr(0, kShownLine) + "...";
}

// "" if the line is a probe's first line; else what is wrong with it.
std::string read_hello(const std::string& line, ProbeInfo& info) {
  const json hello = json::parse(line, nullptr, false);
  if (!hello.is_object() || hello.value("format", json()) != "zero3sim-probe")
    return "its first line is not a probe's: " + shown(line);
  const json spoken = hello.value("version", json());
  if (!spoken.is_number_integer() || spoken > kProbeVersion) {
    return fmt::format(
        "it speaks version {} of the protocol, this zero3sim speaks {}: take both of one release",
        spoken.dump(), kProbeVersion);
  }
  const auto text = [&hello](const char* key) {
    const json value = hello.value(key, json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  info = {text("deepspeed"), text("torch"), text("python")};
  return info.deepspeed.empty() ? "its first line does not name the DeepSpeed release: " + shown(line) : "";
}

}  // namespace

ProbeSession::ProbeSession(ProbeOptions options) : options_(std::move(options)) { start(); }

void ProbeSession::start() {
  const std::string error = child_.start(
      {options_.python, "-m", "zero3probe", "serve", "--timeout", fmt::format("{:g}", options_.timeout_s)});
  if (!error.empty()) {
    throw ProbeUnavailable(fmt::format(
        "cannot start {}: {}\n  --python takes the Python interpreter that has DeepSpeed installed",
        options_.python, error));
  }
  std::string line;
  switch (child_.read_line(line, after(options_.start_s))) {
    case ChildProcess::Read::kEnd: throw ProbeUnavailable(why_no_start(child_.stop(kGrace)));
    case ChildProcess::Read::kLate:
      child_.stop();
      throw ProbeUnavailable(why_no_start(fmt::format("not ready after {:g} s", options_.start_s)));
    case ChildProcess::Read::kLine: break;
  }
  const std::string wrong = read_hello(line, info_);
  if (wrong.empty()) return;
  child_.stop();
  throw ProbeUnavailable(why_no_start(wrong));
}

std::string ProbeSession::why_no_start(const std::string& what) {
  const std::string tail = child_.stderr_tail();
  if (tail.find("No module named zero3probe") != std::string::npos) {
    return fmt::format("{} has no zero3probe\n  install it there: {} -m pip install ./probe", options_.python,
                       options_.python);
  }
  if (child_.exit_status() == kExitUnavailable && !tail.empty())
    return fmt::format("{} cannot run DeepSpeed: {}", options_.python, tail);
  return fmt::format("the probe in {} does not start: {}{}{}", options_.python, what,
                     tail.empty() ? "" : "\n", tail);
}

ProbeAnswer ProbeSession::run(const std::string& run_file) {
  if (!child_.running()) start();
  child_.send(run_file);
  return read_answer();
}

void ProbeSession::restart(double timeout_s) {
  child_.stop();
  options_.timeout_s = timeout_s;
  start();
}

ProbeAnswer ProbeSession::read_answer() {
  const Clock::time_point deadline = after(options_.timeout_s + options_.margin_s);
  TraceReader reader("the probe's trace");
  std::string line;
  std::string lines;
  for (;;) {
    const ChildProcess::Read read = child_.read_line(line, deadline);
    if (read != ChildProcess::Read::kLine) {
      const bool late = read == ChildProcess::Read::kLate;
      return stopped(late ? ProbeAnswer::Kind::kHung : ProbeAnswer::Kind::kDied,
                     reader.cut().value_or(RunTrace{}), "");
    }
    lines += line + "\n";
    try {
      if (std::optional<RunTrace> run = reader.add_line(line)) {
        return {.kind = ProbeAnswer::Kind::kTrace,
                .trace = std::move(*run),
                .text = "",
                .lines = std::move(lines)};
      }
    } catch (const BadInput& error) {
      return stopped(ProbeAnswer::Kind::kGarbage, reader.cut().value_or(RunTrace{}),
                     fmt::format("{}\n  {}", error.what(), shown(line)));
    }
  }
}

ProbeAnswer ProbeSession::stopped(ProbeAnswer::Kind kind, RunTrace trace, const std::string& why) {
  const std::string how =
      child_.stop(kind == ProbeAnswer::Kind::kDied ? kGrace : std::chrono::milliseconds(0));
  std::string text = why;
  if (kind == ProbeAnswer::Kind::kDied) text = "the probe died: " + how;
  if (kind == ProbeAnswer::Kind::kHung)
    text = fmt::format("the probe did not answer within {:g} s and was stopped",
                       options_.timeout_s + options_.margin_s);
  const std::string tail = child_.stderr_tail();
  if (!tail.empty()) text += "\n" + tail;
  return {.kind = kind, .trace = std::move(trace), .text = std::move(text)};
}

}  // namespace zero3::sim
