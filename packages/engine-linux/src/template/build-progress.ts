import type { ReportProgress } from '../host/progress.ts'
import { HOOK_MARK } from './build-hooks.ts'

/** The part of the progress bar of each phase of mmdebstrap, in proportion to its time. */
const PHASES = [
  { starts: 'running apt-get update', doing: 'reading package lists', from: 0, to: 3 },
  { starts: 'downloading packages', doing: 'downloading the base system', from: 3, to: 8 },
  { starts: 'extracting archives', doing: 'unpacking the base system', from: 8, to: 12 },
  { starts: 'installing essential', doing: 'installing the base system', from: 12, to: 22 },
  { starts: 'installing remaining', doing: 'installing packages', from: 22, to: 75 },
] as const
/** apt prints each package when it fetches, unpacks and configures it. */
const MENTIONS_PER_PACKAGE = 3
/** Approximate number of packages in the base system; apt prints the number only for the others. */
const BASE_PACKAGES = 60

/** The phase that a line of mmdebstrap begins. */
export function phaseOf(line: string): (typeof PHASES)[number] | undefined {
  return PHASES.find(({ starts }) => line.startsWith(`I: ${starts}`))
}

/** Turns the lines of `mmdebstrap --verbose` into progress reports. */
export function followBuild(report: ReportProgress): (line: string) => void {
  let phase: (typeof PHASES)[number] = PHASES[0]
  let percent = 0
  let total = BASE_PACKAGES
  let mentions = 0
  const advance = (to: number, doing: string) => {
    percent = Math.max(percent, to)
    report({ percent, doing })
  }
  return (line) => {
    const started = phaseOf(line)
    const announced = /(\d+) newly installed/.exec(line)
    if (started !== undefined) {
      phase = started
      mentions = 0
      advance(phase.from, phase.doing)
    } else if (line.startsWith(HOOK_MARK)) {
      advance(75 + (85 - 75) / 2, line.slice(HOOK_MARK.length))
    } else if (announced !== null) {
      total = Math.max(1, Number(announced[1]))
      mentions = 0
    } else if (/^(Get:\d+|Selecting previously|Setting up) /.test(line)) {
      const share = Math.min(1, ++mentions / (total * MENTIONS_PER_PACKAGE))
      advance(phase.from + (phase.to - phase.from) * share, phase.doing)
    }
  }
}
