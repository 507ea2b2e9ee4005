// The page of a report: HTML that stands alone and needs no network.
#pragma once
#include "cli/report/report.hpp"

namespace gradus::inline v1::cli {

struct ReportEpoch {
  int64_t epoch = 0, step = 0, skipped = 0;
  double train_loss = 0, lr = 0;
  Score score;
  double seconds = 0;  // of this epoch, its test and checkpoint included
  double samples_per_second = 0;
};
struct ReportEntry {  // a key of the config
  std::string path, value, origin;
};
struct ReportPage {
  std::string name;      // of the folder
  std::string headline;  // how the run ended
  std::string trouble;   // it diverges or learns nothing: why that is thought, or ""
  std::string cause;     // where a NaN comes from, or ""
  std::string at_fault;  // the file of the folder that holds that step, or ""
  std::string run_dir;
  std::string svg;     // the curves
  std::string health;  // a part of the page (report_health.hpp)
  std::vector<ReportEpoch> epochs;
  std::vector<ReportEntry> config;
  std::vector<std::pair<std::string, std::string>> facts;  // what and its value
  std::vector<std::string> files;                          // of the folder, to link to
  const ReportData* data;
};
std::string to_html(const ReportPage& page);

}  // namespace gradus::cli
