import { Option } from 'commander'
import { parseBytes, parseDurationMs, parseNumber, parseTime } from '../format/amounts.ts'
import { UsageError } from './cli-error.ts'

/** Parsers for values of flags. They throw a UsageError for values that they do not understand. */

export function durationFlag(flag: string): (text: string) => number {
  return (text) => parsed(parseDurationMs(text), flag, text, 'Use a time such as 500ms, 15s, 5m, 2h or 7d.')
}

/** Milliseconds since 1970. */
export function timeFlag(flag: string): (text: string) => number {
  return (text) =>
    parsed(
      parseTime(text, Date.now()),
      flag,
      text,
      'Use a duration such as 10m, or a time such as 2026-01-31.',
    )
}

export function bytesFlag(flag: string): (text: string) => number {
  return (text) => parsed(parseBytes(text), flag, text, 'Use a size such as 500MB, 4GiB or 4g.')
}

export function numberFlag(flag: string): (text: string) => number {
  return (text) => parsed(parseNumber(text), flag, text, 'Use a number.')
}

/** Collects NAME=VALUE pairs of a flag that is given several times. */
export function pairsFlag(
  flag: string,
): (text: string, before: Readonly<Record<string, string>> | undefined) => Record<string, string> {
  return (text, before = {}) => {
    const at = text.indexOf('=')
    if (at < 1) throw new UsageError(`${flag} has an invalid value "${text}"`, `Use ${flag} NAME=VALUE.`)
    return { ...before, [text.slice(0, at)]: text.slice(at + 1) }
  }
}

function parsed(value: number | undefined, flag: string, text: string, hint: string): number {
  if (value === undefined) throw new UsageError(`${flag} has an invalid value "${text}"`, hint)
  return value
}

/** Collects the values of a flag that is given several times. */
export function collectValues(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text]
}

export function quietOption(): Option {
  return new Option('-q, --quiet', 'print only names (ids where there is no name)')
}
