# The loop of an R context. R is not interactive here: code that asks a question gets an empty answer, and never reads
# the commands of the driver. Descriptors are opened for each use, because closeAllConnections() is ordinary R.
local({
  descriptors <- sprintf("/proc/self/fd/%s", commandArgs(trailingOnly = TRUE))
  code_path <- descriptors[[1]]
  report_path <- descriptors[[2]]
  command_path <- descriptors[[3]]
  plots <- file.path(tempdir(), "dormouse-plots")
  max_text <- 262144L
  max_calls <- 50L

  # Fields are apart by U+001F, and a NUL ends the report. No string of R has a NUL in it.
  report <- function(...) suspendInterrupts({
    pipe <- file(report_path, "wb", raw = TRUE)
    on.exit(close(pipe))
    fields <- gsub("\037", "?", enc2utf8(c(...)), fixed = TRUE)
    writeBin(c(charToRaw(paste(fields, collapse = "\037")), as.raw(0)), pipe)
  })

  shorten <- function(text) {
    if (nchar(text, "bytes") <= max_text) return(text)
    paste0(iconv(rawToChar(charToRaw(text)[seq_len(max_text)]), "UTF-8", "UTF-8", sub = ""), "\u2026")
  }

  # A device per run: its pages become results, and no run draws on those of another.
  open_device <- function(...) {
    dir.create(plots, showWarnings = FALSE)
    grDevices::png(file.path(plots, "page-%04d.png"), width = 1200, height = 900, res = 150)
  }

  show_plots <- function() {
    if (!dir.exists(plots)) return(invisible())
    grDevices::graphics.off()
    for (page in sort(list.files(plots, full.names = TRUE))) report("file", "image/png", page)
  }

  show_value <- function(value) {
    text <- paste(utils::capture.output(if (isS4(value)) methods::show(value) else print(value)), collapse = "\n")
    if (nzchar(text)) report("result", "text/plain", shorten(text))
  }

  evaluate <- function() {
    cells <- parse(code_path, keep.source = FALSE, encoding = "UTF-8")
    for (index in seq_along(cells)) {
      shown <- withVisible(eval(cells[[index]], globalenv()))
      if (!shown$visible) next
      if (index < length(cells)) print(shown$value) else show_value(shown$value)
    }
    0L
  }

  # The calls of user code: after those of this loop, before those that signal the error.
  calls_of <- function(calls, before) {
    inner <- calls[seq_along(calls) > before]
    is_call <- function(name) vapply(inner, function(call) identical(call[[1]], as.name(name)), NA)
    from <- which(is_call("eval"))[2] + 1L
    to <- min(which(is_call(".handleSimpleError") | vapply(inner, function(call) is.function(call[[1]]), NA)),
              length(inner) + 1L) - 1L
    if (is.na(from) || from > to) return(character())
    utils::tail(vapply(inner[from:to], function(call) deparse(call, nlines = 1L)[[1]], ""), max_calls)
  }

  # R would name our own call for a warning of the code itself.
  show_warning <- function(problem) {
    if (getOption("warn") != 1 || !identical(conditionCall(problem)[[1]], quote(eval))) return()
    message("Warning: ", conditionMessage(problem))
    invokeRestart("muffleWarning")
  }

  show_error <- function(problem, stack) {
    message <- conditionMessage(problem)
    call <- conditionCall(problem)
    is_own <- is.null(call) || identical(call[[1]], quote(eval)) || identical(call[[1]], quote(parse))
    where <- if (is_own) "Error: " else paste0("Error in ", deparse(call, nlines = 1L)[[1]], " : ")
    traceback <- shorten(paste(c(paste0(where, message), sprintf("  %d. %s", seq_along(stack), stack)), collapse = "\n"))
    cat(traceback, "\n", sep = "", file = stderr())
    report("error", class(problem)[[1]], shorten(message), traceback)
  }

  run <- function() {
    calls <- list()
    before <- sys.nframe()
    tryCatch(
      withRestarts(
        withCallingHandlers(evaluate(), error = function(problem) calls <<- sys.calls(),
                            warning = show_warning),
        dormouse_exit = function(status) status
      ),
      error = function(problem) {
        show_error(problem, tryCatch(calls_of(calls, before), error = function(other) character()))
        1L
      },
      interrupt = function(problem) 130L
    )
  }

  exit <- function(save = "no", status = 0, runLast = TRUE) invokeRestart("dormouse_exit", as.integer(status))
  attach(list(q = exit, quit = exit), name = "dormouse", warn.conflicts = FALSE)
  # Warnings appear when they happen: R would keep them until it is back at a prompt, which is never.
  options(warn = 1, device = open_device, bitmapType = "cairo", menu.graphics = FALSE)
  Sys.unsetenv("DORMOUSE_KEEP_AWAKE")

  serve <- function() {
    commands <- file(command_path, "rb", raw = TRUE)
    command <- tryCatch(readLines(commands, 1L), finally = close(commands))
    if (length(command) == 0L) base::quit("no")
    status <- run()
    tryCatch(show_plots(), error = function(problem) message("A plot cannot be shown: ", conditionMessage(problem)))
    while (sink.number() > 0L) sink()
    report(as.character(status))
  }
  report("0")
  # An interrupt that comes when its run has ended changes nothing.
  repeat tryCatch(serve(), interrupt = function(problem) NULL)
})
