// weft: the command line. Each command parses its options here and calls the library.
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

#include "actors/launch/role_arguments.h"
#include "actors/launch/roles.h"
#include "apps/cli/check_words.h"
#include "apps/cli/cluster_options.h"
#include "apps/cli/commands.h"
#include "apps/cli/completion.h"
#include "apps/cli/end_parsing.h"
#include "apps/cli/examples.h"
#include "apps/cli/request_options.h"
#include "apps/plan_options/plan_options.h"
#include "core/base/descriptors.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/version.h"
#include "core/crash/crash_report.h"

namespace weft::apps {
namespace {

/// Adds the options of `weft plan --reshard`.
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
  add("--strategy", options.strategy, "Resharding strategy", "NAME")->capture_default_str();
  add("--svg", options.svg, "Draw the transfers between hosts", "FILE");
}

/// Adds `weft schedule` with a subcommand per action, all with the same options.
CLI::App* add_schedule(CLI::App& app, ScheduleOptions& options) {
  auto* command = app.add_subcommand(
      "schedule", "Print, check, simulate, compare and draw pipeline schedules; starts nothing");
  command->require_subcommand(1);
  ScheduleQuery& request = options.request;
  for (const auto& [name, action, text] :
       {std::tuple("show", ScheduleAction::kShow, "Print the order of every actor"),
        std::tuple("check", ScheduleAction::kCheck,
                   "Check that a schedule is complete, free of deadlocks, fits memory, ...; exit "
                   "status 1 if not"),
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
    number("--chunks", request.chunks, "Stages on each device; 0: as the schedule wants");
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
    number("--weight-part", request.weight_part,
           "Share of activations kept until the weight gradient");
    number("--tensor", request.tensor, "Memory of what a stage hands to the next");
    word("--vocabulary", request.vocabulary,
         "A vocabulary over all actors: times of its passes S and T on each, and 1 barrier "
         "(vocab-2), 2 (vocab-1) or interlaced (1f1b)",
         "S,T[,BARRIERS]");
    one->add_option("--duplex", request.duplex,
                    "Compounds: none; the two halves of each microbatch; forwards with backwards. "
                    "Without it: those of the schedule")
        ->check(CLI::IsMember({"off", "halves", "cross"}))
        ->type_name("off|halves|cross");
    word("--memory", request.memory, "Memory limit of each actor, or one per actor", "CAP[,...]");
    one->add_option("--bubble", request.bubble, "Largest bubble that check accepts")
        ->type_name("PERCENT");
    number("--per-action", request.dispatch_time, "Time that starting any action costs");
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

CLI::App* add_head(CLI::App& app, HeadOptions& options) {
  auto* command = app.add_subcommand("head", "Start the head of a cluster; hosts join it");
  command
      ->add_option("--listen", options.listen, "Address to listen on; loopback only unless given")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      ->add_option("--state", options.state,
                   "Folder of the head's state; default: ~/.local/state/weft/PORT")
      ->type_name("DIR");
  command
      ->add_option("--head-grace", options.grace,
                   "Seconds for which hosts and runs wait for a missing head")
      ->check(CLI::Range(1.0, 86400.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_flag("--insecure", options.insecure, kInsecureText);
  return command;
}

CLI::App* add_join(CLI::App& app, JoinOptions& options) {
  auto* command = app.add_subcommand("join", "Join a cluster with this host and its devices");
  command->add_option("head", options.head, "Address that `weft head` printed")
      ->required()
      ->type_name("HOST:PORT");
  command->add_option("--name", options.name, "Name of this host; default: its host name");
  command
      ->add_option("--devices", options.devices,
                   "Devices to offer; 0: only actors without devices run here")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command
      ->add_option("--cpus", options.cpus,
                   "Processors for actors that need some; default: those that this process may use")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("NUMBER");
  command
      ->add_option("--memory", options.memory,
                   "Memory for actors that need some, such as 16GiB; default: that of this machine")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
  command
      ->add_option("--resource", options.resources,
                   "Another resource that actors may need; may be repeated")
      ->type_name("NAME=NUMBER")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--label", options.labels,
                   "A label by which actors are placed, such as zone=a; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--logs", options.logs,
                   "Folder for the logs of device processes; default: weft-logs/NAME")
      ->type_name("DIR");
  command
      ->add_option("--grace", options.grace,
                   "Seconds that runs have to save and release their devices after a signal")
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  add_access(command, options.token_file, options.certificate, options.insecure);
  return command;
}

/// Adds the run file and --set.
CLI::Option* add_file(CLI::App* command, FileOptions& options) {
  auto* file = command->add_option("file", options.file, "The run file (YAML)")
                   ->required()
                   ->type_name("FILE");
  command->add_option("--set", options.overrides, "Override a value of the file; may be repeated")
      ->type_name("key.path=value")
      ->take_all()
      ->allow_extra_args(false);
  return file;
}

CLI::App* add_run(CLI::App& app, FileOptions& options) {
  auto* command = app.add_subcommand("run", "Run a job described by a YAML file");
  add_file(command, options);
  command->add_option("--head", options.head, "Use a running cluster instead of starting one")
      ->type_name("HOST:PORT");
  add_access(command, options.token_file, options.certificate, options.insecure);
  command->add_option("--out", options.out, "Folder for the results; default: runs/NAME")
      ->type_name("DIR");
  auto* head = command->get_option("--head");
  auto* detach = command
                     ->add_flag("--detach", options.detach,
                                "Detach the run: the agent of its first host starts its driver, "
                                "and the results are on that host")
                     ->needs(head);
  command->add_flag("--json", options.json, "Print JSON (only with --detach)")->needs(detach);
  return command;
}

CLI::App* add_select(CLI::App& app, SelectOptions& options) {
  auto* command = app.add_subcommand(
      "select",
      "Select a training subset from a data set larger than memory, and write it to a folder");
  command
      ->add_option(
          "input", options.input,
          "Pictures or texts (a folder), vectors (.npy, .safetensors, .parquet), fashion-mnist, "
          "kjv, linux-doc; or a run file")
      ->type_name("INPUT");
  command->add_option("--budget", options.budget, "How many: 10%, or a number; default: 10%")
      ->type_name("SHARE");
  FileOptions& file = options.file;
  command->add_option("--set", file.overrides, "Set a value of the run file; may be repeated")
      ->type_name("key.path=value")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--workers", options.workers, "Worker processes, if INPUT is not a run file")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--out", file.out, "Folder for the results; default: runs/NAME")
      ->type_name("DIR");
  command->add_option("--resume", options.resume, "Resume the selection in this folder")
      ->type_name("DIR");
  command->add_option("--head", file.head, "Use a running cluster instead of starting one")
      ->type_name("HOST:PORT");
  add_access(command, file.token_file, file.certificate, file.insecure);
  return command;
}

CLI::App* add_check(CLI::App& app, FileOptions& options) {
  auto* command = app.add_subcommand("check", "Check a run file; starts nothing");
  add_file(command, options);
  command->add_flag("--json", options.json, "Print JSON");
  return command;
}

CLI::App* add_keys(CLI::App& app, KeysOptions& options) {
  auto* command = app.add_subcommand(
      "keys", "Show every key of a run file: type, default, unit, and what it decides");
  command->add_option("app", options.app, "gpt, select, ..., the path of an app, or a run file")
      ->type_name("APP")
      ->capture_default_str();
  command->add_option("under", options.under, "Only this key and those below it, such as pipeline")
      ->type_name("KEY");
  auto* json = command->add_flag("--json", options.json, "Print JSON");
  command->add_flag("--schema", options.schema, "Print a JSON schema, for editors")->excludes(json);
  return command;
}

CLI::App* add_plan(CLI::App& app, FileOptions& options, ReshardPlanOptions& reshard) {
  auto* command =
      app.add_subcommand("plan", "Show what a run, or one resharding, would do; starts nothing");
  add_file(command, options)->required(false);
  command->add_flag("--json", options.json, "Print JSON");
  command
      ->add_option("--programs", options.programs,
                   "Print what this device does, or all; DEVICE as in front[0,1]")
      ->type_name("[DEVICE]")
      ->expected(0, 1);
  add_reshard(command, reshard);
  return command;
}

/// Adds `weft strategy` with a subcommand per action.
CLI::App* add_strategy(CLI::App& app, StrategyOptions& options) {
  auto* command = app.add_subcommand(
      "strategy", "Print and check how tensors are split over meshes; starts nothing");
  command->require_subcommand(1);
  auto* show = command->add_subcommand(
      "show", "Print how each op and value is split: a file for `layout: FILE.strategy`");
  show->callback([&options] { options.action = StrategyAction::kShow; });
  add_file(show, options.file);
  show->add_option("--mesh", options.mesh, "Of this mesh; default: of all")->type_name("NAME");
  auto* check = command->add_subcommand(
      "check", "Check a strategy, or those of a run; exit status 2 if there is an error");
  check->callback([&options] { options.action = StrategyAction::kCheck; });
  add_file(check, options.file)->description("The run file (YAML), or a FILE.strategy with --run");
  check->add_option("--run", options.run, "The run file that the strategy is for")
      ->type_name("FILE");
  check
      ->add_option("--mesh", options.mesh,
                   "The mesh of that run; default: the one that the strategy names")
      ->type_name("NAME");
  check->add_flag("--json", options.file.json, "Print JSON");
  auto* compare = command->add_subcommand(
      "compare",
      "Plan a run under several layouts: bytes, transfers, memory, time of its transfers");
  compare->callback([&options] { options.action = StrategyAction::kCompare; });
  add_file(compare, options.file);
  compare->add_option("--layouts", options.layouts, "Layouts to compare")
      ->capture_default_str()
      ->type_name("NAME,...");
  compare->add_option("--svg", options.svg, "Draw it into this file")->type_name("FILE");
  compare->add_flag("--json", options.file.json, "Print JSON");
  return command;
}

/// Parser of the command line and the parsed options.
class CommandLine final {
 public:
  CommandLine() {
    app_.set_version_flag("--version", fmt::format("weft {}", kVersion));
    app_.require_subcommand(1);
    app_.get_formatter()->column_width(34);
    // Order of --help.
    head_command_ = add_head(app_, head_);
    join_command_ = add_join(app_, join_);
    run_command_ = add_run(app_, file_);
    select_command_ = add_select(app_, select_);
    check_command_ = add_check(app_, file_);
    keys_command_ = add_keys(app_, keys_);
    plan_command_ = add_plan(app_, file_, reshard_);
    strategy_command_ = add_strategy(app_, strategy_);
    schedule_command_ = add_schedule(app_, schedule_);
    status_command_ = add_cluster_command(
        app_, "status", "Show hosts, meshes and the last events of a cluster", cluster_);
    status_command_->add_flag("--json", cluster_.json, "Print JSON");
    runs_command_ =
        add_cluster_command(app_, "runs", "Show the active and ended runs of a cluster", cluster_);
    runs_command_->add_flag("--json", cluster_.json, "Print JSON");
    events_command_ = add_events(app_, events_);
    logs_command_ = add_logs(app_, logs_);
    why_command_ = add_why(app_, why_);
    actors_command_ = add_actors(app_, actors_);
    cancel_command_ = add_cancel(app_, cancel_);
    stop_command_ = add_cluster_command(app_, "stop", "Stop a cluster and all its runs", cluster_);
    stop_command_->add_flag(
        "--now", cluster_.now,
        "Stop at once. By default runs first finish a step and write a checkpoint (at most 25 s)");
    token_command_ = app_.add_subcommand("token", "Replace a cluster's token");
    token_command_->require_subcommand(1);
    auto* rotate = add_cluster_command(
        *token_command_, "rotate",
        "Replace the token: current members get the new one, all others need a copy", cluster_);
    rotate
        ->add_option("--state", cluster_.state,
                     "Folder of the state of a head that does not run, in place of --head")
        ->type_name("DIR");
    gpus_command_ =
        app_.add_subcommand("gpus", "Show this machine's GPUs, or why none can be used");
    gpus_command_->add_flag("--json", gpus_json_, "Print JSON");
    bench_command_ = app_.add_subcommand("bench", "Measure: weft bench reshard --help");
    bench_command_->prefix_command();
    bench_command_->set_help_flag();  // the benchmark has its own
    completion_command_ =
        app_.add_subcommand("completion", "Print a completion script for a shell");
    completion_command_->add_option("shell", shell_, "bash, zsh or fish")
        ->required()
        ->type_name("SHELL");
    add_examples(app_, "");
  }

  /// Returns the exit status.
  int parse_and_run(std::vector<std::string> words) {
    if (!words.empty() && words[0] == "help") {  // weft help run -> weft run --help
      words.erase(words.begin());
      words.emplace_back("--help");
    }
    reject_unknown_words(app_, words);
    std::reverse(words.begin(), words.end());  // CLI11 expects reverse order
    try {
      app_.parse(words);
    } catch (const CLI::RequiredError& error) {
      explain_missing(error);
    } catch (const CLI::ParseError& error) {
      return exit_status_after_flush(app_.get_name(), print_parse_result(app_, error));
    }
    return run();
  }

 private:
  /// Throws an error with an example, which CLI11's message lacks.
  [[noreturn]] void explain_missing(const CLI::RequiredError& error) const {
    const CLI::App* command = &app_;
    std::string path;
    while (!command->get_subcommands().empty()) {
      command = command->get_subcommands().front();
      path += (path.empty() ? "" : " ") + command->get_name();
    }
    if (!path.empty())
      throw_error(ErrorCode::kInvalidArgument, "{}: {}; for example: {}", path, error.what(),
                  example_of(path));
    throw_error(ErrorCode::kInvalidArgument,
                "which command? There are {}; weft help COMMAND tells more",
                fmt::join(command_names(app_), ", "));
  }

  int run() {
    if (*head_command_) return run_head(head_);
    if (*join_command_) return run_join(join_);
    if (*run_command_) return run_run(file_);
    if (*select_command_) return run_select(select_);
    if (*bench_command_) return run_benchmark(bench_command_->remaining());
    if (*stop_command_) return run_stop(cluster_);
    if (*token_command_) return run_token_rotate(cluster_);
    return exit_status_after_flush(app_.get_name(), show());
  }

  /// Runs a command that only prints.
  int show() {
    if (*completion_command_) {
      say(stdout, "{}", completion_for(shell_, app_));
      return 0;
    }
    if (*check_command_) return run_check(file_);
    if (*keys_command_) return run_keys(keys_);
    if (*strategy_command_) return run_strategy(strategy_);
    if (*schedule_command_) return run_schedule(schedule_);
    if (*status_command_) return run_status(cluster_);
    if (*runs_command_) return run_runs(cluster_);
    if (*events_command_) return run_events(events_);
    if (*logs_command_) return run_logs(logs_);
    if (*why_command_) return run_why(why_);
    if (*actors_command_) return run_actors(actors_);
    if (*cancel_command_) return run_cancel(cancel_);
    if (*gpus_command_) return run_gpus(gpus_json_);
    if (reshard_.asked) {
      reshard_.json = file_.json;
      return run_plan_reshard(reshard_);
    }
    if (*plan_command_->get_option("--programs") && file_.programs.empty())
      file_.programs = PlanOptions::kAllPrograms;
    // `--programs cluster.yaml` parses the file as the device.
    if (file_.file.empty()) file_.file = std::exchange(file_.programs, PlanOptions::kAllPrograms);
    return run_plan(file_);
  }

  CLI::App app_{"Weft: a distributed actor framework for model-parallel training.", "weft"};
  HeadOptions head_;
  JoinOptions join_;
  FileOptions file_;
  SelectOptions select_;
  KeysOptions keys_;
  ReshardPlanOptions reshard_;
  StrategyOptions strategy_;
  ScheduleOptions schedule_;
  ConnectOptions cluster_;
  EventsOptions events_;
  LogsOptions logs_;
  WhyOptions why_;
  ActorsOptions actors_;
  CancelOptions cancel_;
  bool gpus_json_ = false;
  std::string shell_;
  CLI::App* head_command_ = nullptr;
  CLI::App* join_command_ = nullptr;
  CLI::App* run_command_ = nullptr;
  CLI::App* select_command_ = nullptr;
  CLI::App* check_command_ = nullptr;
  CLI::App* keys_command_ = nullptr;
  CLI::App* plan_command_ = nullptr;
  CLI::App* strategy_command_ = nullptr;
  CLI::App* schedule_command_ = nullptr;
  CLI::App* status_command_ = nullptr;
  CLI::App* runs_command_ = nullptr;
  CLI::App* events_command_ = nullptr;
  CLI::App* logs_command_ = nullptr;
  CLI::App* why_command_ = nullptr;
  CLI::App* actors_command_ = nullptr;
  CLI::App* cancel_command_ = nullptr;
  CLI::App* stop_command_ = nullptr;
  CLI::App* token_command_ = nullptr;
  CLI::App* gpus_command_ = nullptr;
  CLI::App* bench_command_ = nullptr;
  CLI::App* completion_command_ = nullptr;
};

}  // namespace
}  // namespace weft::apps

int main(int argc, char** argv) {
  weft::open_standard_descriptors();
  weft::raise_descriptor_limit();
  weft::report_crashes();
  try {
    if (const auto status = weft::actors::serve_cluster_role({argv + 1, argv + argc}))
      return *status;
    if (weft::actors::role_of({argv + 1, argv + argc}) == "run")
      return weft::apps::serve_run({argv + 1, argv + argc});
    return weft::apps::CommandLine().parse_and_run({argv + 1, argv + argc});
  } catch (...) {
    const weft::Error error = weft::current_error();
    const bool usage = error.code() == weft::ErrorCode::kInvalidConfig ||
                       error.code() == weft::ErrorCode::kInvalidArgument;
    const std::string who = error.code() == weft::ErrorCode::kInvalidConfig ? "" : "weft: ";
    weft::say(stderr, "{}\n", weft::wrapped_for_terminal(STDERR_FILENO, who + error.message()));
    return usage ? 2 : 1;
  }
}
