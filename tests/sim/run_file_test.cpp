// Run files: what an experiment is written as, and that it comes back the same.
#include "sim/run_file/run_file.h"

#include <gtest/gtest.h>

#include "sim/scenario/scenario.h"
#include "sim/short_form.h"

namespace zero3::sim {
namespace {

TEST(WriteRun, SpellsOutTheShortForm) {
  ShortFormOptions options;
  options.ranks = 2;
  EXPECT_EQ(write_run(parse_short_form("t:AB t:AB gm:A", options), "t:AB t:AB gm:A", 7),
            R"({"format":"zero3sim-run","version":1,"name":"t:AB t:AB gm:A","ranks":2,"seed":7,)"
            R"("input_requires_grad":true,"deepspeed_config":{"gradient_accumulation_steps":1,)"
            R"("fp16":{"enabled":false},"zero_optimization":{"stage":3,"stage3_prefetch_bucket_size":100,)"
            R"("stage3_max_live_parameters":1000000,"stage3_max_reuse_distance":0,)"
            R"("stage3_param_persistence_threshold":0,)"
            R"("stage3_model_persistence_threshold":9223372036854775807,)"
            R"("stage3_gather_16bit_weights_on_model_save":true,"log_trace_cache_warnings":false}},)"
            R"("engines":[{"root":0,"optimizer":true}],"modules":[{"name":"root","type":"Root",)"
            R"("children":[["A",1],["B",2],["C",3],["D",4],["E",5],["F",6]]},)"
            R"({"name":"A","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"B","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"C","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"D","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"E","type":"Linear","params":[{"name":"weight","shape":[8,8]}]},)"
            R"({"name":"F","type":"Linear","params":[{"name":"weight","shape":[8,8]}]}]})"
            "\n"
            R"({"plan":0,"calls":[1,2]})"
            "\n"
            R"({"rank":0,"text":"t:AB","ops":[{"op":"train"},{"op":"forward","plan":0},)"
            R"({"op":"backward"},{"op":"step"}]})"
            "\n"
            R"({"rank":0,"text":"t:AB","ops":[{"op":"train"},{"op":"forward","plan":0},)"
            R"({"op":"backward"},{"op":"step"}]})"
            "\n"
            R"({"rank":0,"text":"gm:A","ops":[{"op":"gather","params":[[1,0]],"modifier_rank":0},)"
            R"({"op":"gather_exit"}]})"
            "\n"
            R"({"rank":1,"same_as":0})"
            "\n"
            R"({"end":true})"
            "\n");
}

}  // namespace
}  // namespace zero3::sim
