// Real DeepSpeed at the other end of two pipes: `PYTHON -m zero3probe serve`.
//
// One process imports DeepSpeed once and runs one run file after the other, each in fresh processes of its own. Several
// sessions may be open at the same time. A probe that dies, hangs or talks nonsense is told plainly, and the next run
// starts another one.
#pragma once

#include <string>

#include "sim/backend_unavailable.h"
#include "sim/verify/child_process.h"
#include "sim/verify/trace.h"

namespace zero3::sim {

struct ProbeOptions {
  std::string python;     // the interpreter that has DeepSpeed and zero3probe
  double timeout_s = 30;  // of one run, kept by the probe
  double margin_s = 30;   // what the probe may take beyond it before it counts as hanging
  double start_s = 300;   // to import torch and DeepSpeed; the first start of a release compiles
};

// What the probe says of itself when it starts.
struct ProbeInfo {
  std::string deepspeed;  // "0.15.2"
  std::string torch;
  std::string python;
};

// No real DeepSpeed to be had: no such interpreter, no zero3probe, no DeepSpeed, one that does not import or is
// unknown, a probe that does not start. The text says which and what to do.
class ProbeUnavailable : public BackendUnavailable {
 public:
  using BackendUnavailable::BackendUnavailable;
};

struct ProbeAnswer {
  enum class Kind {
    kTrace,    // a whole trace; it may be a refusal
    kDied,     // the probe ended in the middle
    kHung,     // no end within timeout and margin: it was killed
    kGarbage,  // what came is no trace, or of a newer version: the probe was stopped
  };
  Kind kind = Kind::kTrace;
  RunTrace trace;          // what came of it
  std::string text;        // what went wrong, with the last lines of the probe's stderr; "" for kTrace
  std::string lines = {};  // a whole trace as the probe wrote it
};

class ProbeSession {
 public:
  // Starts the probe and waits for its first line. Throws ProbeUnavailable.
  explicit ProbeSession(ProbeOptions options);

  const ProbeInfo& info() const { return info_; }
  const ProbeOptions& options() const { return options_; }

  // Runs a run file (docs/run-format.md, whole) and reads its trace. Starts the probe again if the last run ended it.
  // Throws ProbeUnavailable if it cannot be started again.
  ProbeAnswer run(const std::string& run_file);

  // Stops the probe and starts it again; `timeout_s` from now on.
  void restart(double timeout_s);

 private:
  void start();
  ProbeAnswer read_answer();
  ProbeAnswer stopped(ProbeAnswer::Kind kind, RunTrace trace, const std::string& why);
  // Why the probe did not start, and what to do.
  std::string why_no_start(const std::string& what);

  ProbeOptions options_;
  ProbeInfo info_;
  ChildProcess child_;
};

}  // namespace zero3::sim
