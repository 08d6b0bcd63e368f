// The commands. Each adds itself to the program and sets the action to run once the command line has been
// read.
#pragma once

#include "cli/options.h"

namespace holdfast::cli {

void AddGenerate(CLI::App& program, Action& action);
void AddChat(CLI::App& program, Action& action);
void AddTokenize(CLI::App& program, Action& action);
void AddInspect(CLI::App& program, Action& action);
void AddEval(CLI::App& program, Action& action);
void AddCalibrate(CLI::App& program, Action& action);
void AddBench(CLI::App& program, Action& action);
void AddBenchCascade(CLI::App& bench, Action& action);  // `bench cascade`
void AddBenchServe(CLI::App& bench, Action& action);    // `bench serve`
void AddPlan(CLI::App& program, Action& action);
void AddMatrix(CLI::App& program, Action& action);
void AddReplay(CLI::App& program, Action& action);
void AddModels(CLI::App& program, Action& action);
void AddServe(CLI::App& program, Action& action);

}  // namespace holdfast::cli
