#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/cli/commands.h"

namespace weft::apps {

inline constexpr const char* kInsecureText =
    "Disable TLS beyond loopback: anybody on the network can read and change the traffic";

/// Adds options for access to a head of another user or machine.
void add_access(CLI::App* command, std::string& token_file, std::string& certificate,
                bool& insecure);
/// Adds a command with the options of a connection to a head.
CLI::App* add_cluster_command(CLI::App& app, const char* name, const char* text,
                              ConnectOptions& options);

CLI::App* add_events(CLI::App& app, EventsOptions& options);
CLI::App* add_logs(CLI::App& app, LogsOptions& options);
CLI::App* add_why(CLI::App& app, WhyOptions& options);
/// Adds `weft actors` with its subcommand stop.
CLI::App* add_actors(CLI::App& app, ActorsOptions& options);
CLI::App* add_cancel(CLI::App& app, CancelOptions& options);

}  // namespace weft::apps
