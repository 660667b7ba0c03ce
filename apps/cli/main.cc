// weft: the command line. Each command reads its options here and hands over to the library.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/launch/app_main.h"
#include "actors/launch/roles.h"
#include "apps/cli/check_words.h"
#include "apps/cli/commands.h"
#include "apps/cli/end_parsing.h"
#include "apps/cli/request_options.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/version.h"

namespace weft::apps {
namespace {

/// The options of `weft plan --reshard`.
void add_reshard(CLI::App* command, ReshardPlanOptions& options) {
  const char* group = "One resharding";
  auto* flag = command
                   ->add_flag("--reshard", options.asked,
                              "Plan a single resharding, given by the options below")
                   ->group(group);
  for (CLI::Option* option : add_request_options(*command, options.request, group))
    option->needs(flag);
  command->get_option("--rate")->needs(flag);
  const auto add = [&](const char* name, std::string& value, const char* text, const char* type) {
    return command->add_option(name, value, text)->type_name(type)->group(group)->needs(flag);
  };
  add("--strategy", options.strategy, "How slices travel", "NAME")->capture_default_str();
  add("--svg", options.svg, "Draw who sends what to whom", "FILE");
}

/// `weft schedule` with a subcommand per action, all with the same options.
CLI::App* add_schedule(CLI::App& app, ScheduleOptions& options) {
  auto* command = app.add_subcommand(
      "schedule", "Print, check, simulate, compare and draw pipeline schedules; starts nothing");
  command->require_subcommand(1);
  ScheduleQuery& request = options.request;
  for (const auto& [name, action, text] :
       {std::tuple("show", ScheduleAction::kShow, "Print the order of every actor"),
        std::tuple("check", ScheduleAction::kCheck,
                   "Say whether it is complete, cannot block, fits, ...; exit status 1 if not"),
        std::tuple("simulate", ScheduleAction::kSimulate,
                   "Play one step: makespan, bubbles, memory, exposed transfers"),
        std::tuple("compare", ScheduleAction::kCompare,
                   "A table; of all schedules unless some are named"),
        std::tuple("draw", ScheduleAction::kDraw,
                   "A timeline here, and as a picture with --svg")}) {
    auto* one = command->add_subcommand(name, text);
    one->callback([&options, chosen = action] { options.action = chosen; });
    one->add_option("schedule", request.schedules,
                    "Names, auto, or files (rows of 0F0,1B0,... as PyTorch writes them)")
        ->type_name("NAME-or-FILE");
    const auto number = [one](const char* option, auto& value, const char* meaning) {
      one->add_option(option, value, meaning)->capture_default_str();
    };
    const auto word = [one](const char* option, std::string& value, const char* meaning,
                            const char* type) {
      one->add_option(option, value, meaning)->type_name(type)->capture_default_str();
    };
    number("--stages", request.stages,
           "Actors: one stage each, or as much work in several smaller ones");
    number("--microbatches", request.microbatches, "Microbatches per step");
    number("--chunks", request.chunks,
           "Stages per actor where the schedule leaves it open; 0: its own choice");
    number("--group", request.group,
           "interleaved-1f1b: microbatches in a row; 0: about the number of actors");
    word("--times", request.times,
         "Of an actor's forward, input and weight gradient; or a triple per stage", "F,I,W[;...]");
    word("--transfer", request.transfer, "Time of a transfer, each way; or one per edge",
         "C[,...]");
    one->add_option("--skip", request.skips, "A skip connection; may be repeated")
        ->type_name("FROM-TO[:C[:MEMORY]]")
        ->take_all()
        ->allow_extra_args(false);
    number("--activations", request.activations,
           "Memory of an actor's activations for one microbatch");
    number("--weight-part", request.weight_part, "The part of it that W still needs");
    number("--tensor", request.tensor, "Memory of what a stage hands to the next");
    word("--memory", request.memory, "What an actor has; or one number each", "CAP[,...]");
    one->add_option("--bubble", request.bubble, "Largest bubble that check accepts")
        ->type_name("PERCENT");
    number("--per-action", request.per_action, "Time that starting any action costs");
    number("--pair-time", request.pair_time,
           "A compound's time, as a share of its parts'; 0: they run one after the other");
    number("--credits", request.credits, "Receives posted ahead per edge; 0: any number");
    one->add_flag("--share-nics", request.share_nics,
                  "An actor's transfers share its network interface");
    one->add_flag("--json", options.json, "Print JSON");
    if (action == ScheduleAction::kShow)
      one->add_flag("--csv", options.csv, "Print a file that can be read again");
    if (action == ScheduleAction::kDraw || action == ScheduleAction::kCompare ||
        action == ScheduleAction::kSimulate) {
      one->add_option("--svg", options.svg, "Draw them under each other into a picture")
          ->type_name("FILE");
    }
  }
  return command;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Weft: a distributed actor framework for model-parallel training.", "weft");
  app.set_version_flag("--version", fmt::format("weft {}", kVersion));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  HeadOptions head;
  auto* head_command = app.add_subcommand("head", "Start the head of a cluster; hosts join it");
  head_command
      ->add_option("--listen", head.listen, "Address to listen on; loopback only unless given")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  head_command
      ->add_option("--state", head.state,
                   "Folder of the head's state; default: ~/.local/state/weft/PORT")
      ->type_name("DIR");

  JoinOptions join;
  auto* join_command = app.add_subcommand("join", "Join a cluster with this host and its devices");
  join_command->add_option("head", join.head, "Address that `weft head` printed")
      ->required()
      ->type_name("HOST:PORT");
  join_command->add_option("--name", join.name, "Name of this host; default: its host name");
  join_command->add_option("--devices", join.devices, "Devices to offer")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  join_command
      ->add_option("--logs", join.logs,
                   "Folder for the logs of device processes; default: weft-logs/NAME")
      ->type_name("DIR");

  const auto add_token_file = [](CLI::App* command, std::string& value) {
    command
        ->add_option("--token-file", value,
                     "The cluster's token, for a head of another user or machine")
        ->type_name("FILE");
  };
  add_token_file(join_command, join.token_file);

  FileOptions file;
  const auto add_file = [&file](CLI::App* command) {
    auto* option = command->add_option("file", file.file, "The run file (YAML)")
                       ->required()
                       ->type_name("FILE");
    command->add_option("--set", file.overrides, "Override a value of the file; may be repeated")
        ->type_name("key.path=value")
        ->take_all()
        ->allow_extra_args(false);
    return option;
  };
  auto* run_command =
      app.add_subcommand("run", "Run what a file describes, from first process to last");
  add_file(run_command);
  run_command->add_option("--head", file.head, "Use a cluster that runs instead of starting one")
      ->type_name("HOST:PORT");
  add_token_file(run_command, file.token_file);
  run_command->add_option("--out", file.out, "Folder for the results; default: runs/NAME")
      ->type_name("DIR");
  auto* check_command = app.add_subcommand("check", "Check a run file; starts nothing");
  add_file(check_command);
  check_command->add_flag("--json", file.json, "Print JSON");
  auto* plan_command =
      app.add_subcommand("plan", "Show what a run, or one resharding, would do; starts nothing");
  add_file(plan_command)->required(false);
  plan_command->add_flag("--json", file.json, "Print JSON");
  auto* programs = plan_command->add_option(
      "--programs", file.programs, "Print what this device does, or all; DEVICE as in front[0,1]");
  programs->type_name("[DEVICE]")->expected(0, 1);
  ReshardPlanOptions reshard;
  add_reshard(plan_command, reshard);

  ScheduleOptions schedule;
  auto* schedule_command = add_schedule(app, schedule);

  ConnectOptions cluster;
  const auto add_head = [&](CLI::App* command) {
    command->add_option("--head", cluster.head, "Address of the head")
        ->type_name("HOST:PORT")
        ->capture_default_str()
        ->envname("WEFT_HEAD");
    add_token_file(command, cluster.token_file);
  };
  auto* status_command =
      app.add_subcommand("status", "Show hosts, meshes and the last events of a cluster");
  add_head(status_command);
  status_command->add_flag("--json", cluster.json, "Print JSON");
  auto* stop_command = app.add_subcommand("stop", "End a cluster with everything that runs in it");
  add_head(stop_command);

  bool gpus_json = false;
  auto* gpus_command =
      app.add_subcommand("gpus", "Show this machine's GPUs, or why none can be used");
  gpus_command->add_flag("--json", gpus_json, "Print JSON");

  auto* bench_command = app.add_subcommand("bench", "Measure: weft bench reshard --help");
  bench_command->prefix_command();
  bench_command->set_help_flag();  // it is the benchmark's own

  // CLI11 says what it did not expect, but not what was meant, nor an example.
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {  // weft help run -> weft run --help
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  check_words(app, words);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::RequiredError& error) {
    for (const auto& [command, example] :
         {std::pair(run_command, "weft run cluster.yaml"),
          std::pair(check_command, "weft check cluster.yaml"),
          std::pair(join_command, "weft join 127.0.0.1:7077 --name worker0 --devices 2"),
          std::pair(schedule_command, "weft schedule draw zb-h1 auto --stages 4")})
      if (command->parsed())
        throw_error(ErrorCode::kInvalidArgument, "{}: {}; for example: {}", command->get_name(),
                    error.what(), example);
    throw_error(ErrorCode::kInvalidArgument,
                "which command? There are {}; weft help COMMAND tells more",
                fmt::join(command_names(app), ", "));
  } catch (const CLI::ParseError& error) {
    return status_after_output(app.get_name(), end_parsing(app, error));
  }
  if (*head_command) return run_head(head);
  if (*join_command) return run_join(join);
  if (*run_command) return run_run(file);
  if (*bench_command) return run_benchmark(bench_command->remaining());
  if (*stop_command) return run_stop(cluster);
  // What the others print is all that they do.
  const auto show = [&] {
    if (*check_command) return run_check(file);
    if (*schedule_command) return run_schedule(schedule);
    if (*status_command) return run_status(cluster);
    if (*gpus_command) return run_gpus(gpus_json);
    if (reshard.asked) {
      reshard.json = file.json;
      return run_plan_reshard(reshard);
    }
    if (*programs && file.programs.empty()) file.programs = actors::AppRun::kAllPrograms;
    // --programs cluster.yaml
    if (file.file.empty()) file.file = std::exchange(file.programs, actors::AppRun::kAllPrograms);
    return run_plan(file);
  };
  return status_after_output(app.get_name(), show());
}

}  // namespace
}  // namespace weft::apps

int main(int argc, char** argv) {
  weft::open_standard_descriptors();
  try {
    if (const auto status = weft::actors::serve_cluster_role({argv + 1, argv + argc}))
      return *status;
    return weft::apps::parse_and_run(argc, argv);
  } catch (...) {
    const weft::Error error = weft::current_error();
    const bool usage = error.code() == weft::ErrorCode::kInvalidConfig ||
                       error.code() == weft::ErrorCode::kInvalidArgument;
    const std::string who = error.code() == weft::ErrorCode::kInvalidConfig ? "" : "weft: ";
    weft::say(stderr, "{}\n", weft::fitted_to(STDERR_FILENO, who + error.message()));
    return usage ? 2 : 1;
  }
}
