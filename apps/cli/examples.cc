#include "apps/cli/examples.h"

#include <CLI/CLI.hpp>
#include <map>

namespace weft::apps {

std::string example_of(const std::string& command) {
  static const std::map<std::string, std::string> kExamples = {
      {"", "weft run cluster.yaml"},
      {"head", "weft head --listen 10.0.0.1:7077"},
      {"join", "weft join 127.0.0.1:7077 --name worker0 --devices 2"},
      {"run", "weft run cluster.yaml --set training.steps=100 --out runs/short"},
      {"select", "weft select fashion-mnist --budget 10% --out runs/chosen"},
      {"check", "weft check cluster.yaml"},
      {"keys", "weft keys gpt pipeline"},
      {"plan", "weft plan cluster.yaml --programs 'front[0,1]'"},
      {"strategy", "weft strategy show cluster.yaml --mesh front"},
      {"strategy show", "weft strategy show cluster.yaml --mesh front > mine.strategy"},
      {"strategy check", "weft strategy check mine.strategy --run cluster.yaml"},
      {"strategy compare", "weft strategy compare cluster.yaml --layouts 1d,fsdp"},
      {"schedule", "weft schedule draw zb-h1 auto --stages 4"},
      {"schedule show", "weft schedule show zb-h1 --csv > mine.csv"},
      {"schedule check", "weft schedule check mine.csv"},
      {"schedule simulate", "weft schedule simulate eager-1f1b --transfer 0.5"},
      {"schedule compare", "weft schedule compare --stages 4 --microbatches 16 --memory 6"},
      {"schedule draw", "weft schedule draw eager-1f1b zb-h1 --transfer 0.5 --svg schedules.svg"},
      {"status", "weft status --head 127.0.0.1:7077"},
      {"runs", "weft runs"},
      {"events", "weft events --follow"},
      {"logs", "weft logs quickstart 'front[0,1]' --follow"},
      {"why", "weft why 'front[0,1]'"},
      {"actors", "weft actors"},
      {"actors stop", "weft actors stop quickstart/hits"},
      {"cancel", "weft cancel quickstart"},
      {"stop", "weft stop"},
      {"token", "weft token rotate"},
      {"token rotate", "weft token rotate"},
      {"gpus", "weft gpus"},
      {"bench", "weft bench reshard --quick"},
      {"completion", "source <(weft completion bash)"}};
  return kExamples.at(command);
}

void add_examples(CLI::App& app, const std::string& path) {
  app.footer("Example:\n  " + example_of(path));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    add_examples(*command, path.empty() ? command->get_name() : path + " " + command->get_name());
}

}  // namespace weft::apps
