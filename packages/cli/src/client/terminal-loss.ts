import type { Readable } from 'node:stream'
import { isatty } from 'node:tty'
import { CliError } from './cli-error.ts'

const STDIN = 0
/** 128 + SIGHUP. */
export const HANG_UP_STATUS = 129

/**
 * Whether stdin was a terminal that is now gone: its window was closed, or its connection broke. Its input then ends
 * as after Ctrl-D, with or without SIGHUP, so the end alone does not mean that the user finished typing.
 */
export function isTerminalLost(stdin: Readable & { readonly isTTY?: boolean }): boolean {
  return stdin.isTTY === true && !isatty(STDIN)
}

export function terminalLost(): CliError {
  return new CliError('terminal_lost', 'The terminal was closed before the input was complete', {
    hint: 'Nothing was run or stored.',
    exitCode: HANG_UP_STATUS,
  })
}
