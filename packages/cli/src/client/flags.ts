import { Option } from 'commander'
import { parseBytes, parseDurationMs, parseNumber } from '../format/amounts.ts'
import { UsageProblem } from './problem.ts'

/** Parsers of flags' values: each throws what Commander shows as a mistake in what was typed. */

export function durationFlag(flag: string): (text: string) => number {
  return (text) => parsed(parseDurationMs(text), flag, text, 'Give a time like 500ms, 15s, 5m, 2h or 7d.')
}

export function bytesFlag(flag: string): (text: string) => number {
  return (text) => parsed(parseBytes(text), flag, text, 'Give a size like 500MB or 4GiB.')
}

export function numberFlag(flag: string): (text: string) => number {
  return (text) => parsed(parseNumber(text), flag, text, 'Give a number.')
}

/** NAME=VALUE, any number of times. */
export function pairsFlag(
  flag: string,
): (text: string, before: Readonly<Record<string, string>> | undefined) => Record<string, string> {
  return (text, before = {}) => {
    const at = text.indexOf('=')
    if (at < 1)
      throw new UsageProblem(`${flag} does not understand "${text}"`, `Give it as ${flag} NAME=VALUE.`)
    return { ...before, [text.slice(0, at)]: text.slice(at + 1) }
  }
}

function parsed(value: number | undefined, flag: string, text: string, hint: string): number {
  if (value === undefined) throw new UsageProblem(`${flag} does not understand "${text}"`, hint)
  return value
}

/** Any number of times. */
export function collected(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text]
}

/** Of what lists. */
export function quietOption(): Option {
  return new Option('-q, --quiet', 'only names, or ids where there is no name')
}
