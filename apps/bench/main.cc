// weft-bench: the benchmarks of `weft bench`. The first argument names one: `weft-bench reshard
// --quick`. Also head, agent and device process of the clusters that they start.
#include <memory>
#include <vector>

#include "apps/bench/bench_program.h"
#include "apps/bench/pipeline/pipeline_program.h"
#include "apps/bench/reshard/reshard_program.h"
#include "apps/bench/select/select_program.h"
#include "apps/bench/sharding/duplex_program.h"
#include "apps/bench/sharding/sharding_program.h"

int main(int argc, char** argv) {
  using namespace weft::apps;
  std::vector<std::unique_ptr<BenchProgram>> benchmarks;
  benchmarks.push_back(make_reshard_program());
  benchmarks.push_back(make_pipeline_program());
  benchmarks.push_back(make_sharding_program());
  benchmarks.push_back(make_duplex_program());
  benchmarks.push_back(make_select_program());
  return run_bench_program(argc, argv, benchmarks);
}
