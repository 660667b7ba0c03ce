#include "apps/cli/cluster_options.h"

namespace weft::apps {
namespace {

/// Adds the address of the head and access to it.
CLI::Option* add_head_address(CLI::App* command, ConnectOptions& options) {
  auto* head = command->add_option("--head", options.head, "Address of the head")
                   ->type_name("HOST:PORT")
                   ->capture_default_str();
  add_access(command, options.token_file, options.certificate, options.insecure);
  return head;
}

}  // namespace

void add_access(CLI::App* command, std::string& token_file, std::string& certificate,
                bool& insecure) {
  command
      ->add_option("--token-file", token_file,
                   "The cluster's token, for a head of another user or machine")
      ->type_name("FILE");
  command
      ->add_option("--cert", certificate,
                   "The certificate that the head has to present, as `weft head` prints it")
      ->type_name("sha256:DIGITS");
  command->add_flag("--insecure", insecure, kInsecureText);
}

CLI::App* add_cluster_command(CLI::App& app, const char* name, const char* text,
                              ConnectOptions& options) {
  auto* command = app.add_subcommand(name, text);
  add_head_address(command, options)->envname("WEFT_HEAD");
  return command;
}

CLI::App* add_events(CLI::App& app, EventsOptions& options) {
  auto* command =
      add_cluster_command(app, "events", "Show what has happened in a cluster", options.cluster);
  command->add_option("-n,--last", options.last, "How many, of the last ones")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("-f,--follow", options.follow, "Follow new events");
  command->add_flag("--json", options.cluster.json, "Print JSON, an object on each line");
  return command;
}

CLI::App* add_logs(CLI::App& app, LogsOptions& options) {
  auto* command = add_cluster_command(
      app, "logs", "Show what the device processes of a run have written, also after its end",
      options.cluster);
  command
      ->add_option(
          "run", options.run,
          "Its name, or its number, as weft runs prints them; or an actor or mesh, as weft "
          "actors prints it")
      ->required()
      ->type_name("RUN|ACTOR");
  command
      ->add_option("device", options.device,
                   "One device, as weft status prints it, a mesh, or driver (of a run that was "
                   "started with --detach); default: all")
      ->type_name("DEVICE");
  command->add_option("-n,--last", options.last, "The last lines of each; default: all")
      ->type_name("N");
  command->add_flag("-f,--follow", options.follow, "Follow new output until the run ends");
  command->add_flag("--json", options.cluster.json, "Print JSON, an object for each line");
  return command;
}

CLI::App* add_why(CLI::App& app, WhyOptions& options) {
  auto* command = add_cluster_command(
      app, "why",
      "Show which actors wait for which, since when, and their deadlines; finds deadlocks",
      options.cluster);
  command
      ->add_option("what", options.wanted,
                   "A run, or an actor as weft status or weft actors prints it; default: "
                   "everything")
      ->type_name("RUN|ACTOR");
  command->add_option("--within", options.within, "Seconds that processes have to answer")
      ->check(CLI::Range(0.2, 60.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_flag("--json", options.cluster.json, "Print JSON");
  return command;
}

CLI::App* add_actors(CLI::App& app, ActorsOptions& options) {
  auto* command = add_cluster_command(
      app, "actors", "Show the named actors of a cluster: where they are and what they do",
      options.cluster);
  command->add_option("--within", options.within, "Seconds that processes have to answer")
      ->check(CLI::Range(0.2, 60.0))
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_flag("--json", options.cluster.json, "Print JSON");
  auto* stop = command->add_subcommand("stop", "Stop an actor, or all actors of a mesh");
  stop->callback([&options] { options.stops = true; });
  stop->add_option("name", options.stopped, "Its name: hits, or quickstart/hits of a run")
      ->required()
      ->type_name("NAME");
  // The parent alone reads WEFT_HEAD, which would override a --head before "stop".
  add_head_address(stop, options.cluster);
  stop->add_flag("--json", options.cluster.json, "Print JSON");
  return command;
}

CLI::App* add_cancel(CLI::App& app, CancelOptions& options) {
  auto* command = add_cluster_command(app, "cancel",
                                      "End a run as Ctrl-C does: after its step, with a checkpoint",
                                      options.cluster);
  command->add_option("run", options.run, "Its name, or its number, as weft runs prints them")
      ->required()
      ->type_name("RUN");
  command->add_flag("--now", options.now, "Stop at once: steps since the last checkpoint are lost");
  command->add_flag("--json", options.cluster.json, "Print JSON");
  return command;
}

}  // namespace weft::apps
