import { beforeEach, describe } from 'vitest'
import { describeAdopt } from './adopt.ts'
import { describeBadInput } from './bad-input.ts'
import { describeBash } from './bash.ts'
import { describeConnectedProcesses } from './connected-processes.ts'
import { describeContexts } from './contexts.ts'
import type { EngineFactory } from './engine-factory.ts'
import { describeFiles } from './files.ts'
import { describeFilesSafety } from './files-safety.ts'
import { describeFilesSnapshots } from './files-snapshots.ts'
import { describeFork } from './fork.ts'
import { describeInterruptedSleep } from './interrupted-sleep.ts'
import { describeInterrupts } from './interrupts.ts'
import { describeKernelDeath } from './kernel-death.ts'
import { describeLifecycle } from './lifecycle.ts'
import { describeLimits } from './limits.ts'
import { describeMemory } from './memory.ts'
import { describeMultiprocessing } from './multiprocessing.ts'
import { describeNetwork } from './network.ts'
import { describeNetworkAsleep } from './network-asleep.ts'
import { describePorts } from './ports.ts'
import { describeProcesses } from './processes.ts'
import { describeQuestions } from './questions.ts'
import { describeRunsErrors } from './runs-errors.ts'
import { describeRunsOutput } from './runs-output.ts'
import { describeRunsResults } from './runs-results.ts'
import { describeRunsState } from './runs-state.ts'
import { describeRunsVolume } from './runs-volume.ts'
import { describeShownLimits } from './shown-limits.ts'
import { describeSleep } from './sleep.ts'
import { describeSurvival } from './survival.ts'
import { describeSurvive } from './survive.ts'
import { describeTerminals } from './terminals.ts'
import { describeVariables } from './variables.ts'
import { describeVolumes } from './volumes.ts'
import { describeVolumesAsleep } from './volumes-asleep.ts'
import { describeWatch } from './watch.ts'

export type { EngineFactory } from './engine-factory.ts'

/** What every engine must do, by topic. The parts are separate so that they can run in parallel. */
const PARTS = {
  life: [describeLifecycle, describeAdopt, describeBadInput, describeSurvival],
  resources: [describeLimits, describeShownLimits, describeMemory],
  sleep: [describeSleep, describeInterruptedSleep, describeFork, describeSurvive],
  files: [
    describeFiles,
    describeFilesSafety,
    describeFilesSnapshots,
    describeWatch,
    describeVolumes,
    describeVolumesAsleep,
  ],
  runs: [
    describeRunsState,
    describeRunsErrors,
    describeRunsOutput,
    describeRunsVolume,
    describeRunsResults,
    describeBash,
    describeInterrupts,
    describeKernelDeath,
    describeQuestions,
    describeVariables,
    describeMultiprocessing,
    describeContexts,
  ],
  processes: [describeProcesses, describeTerminals, describeConnectedProcesses],
  network: [describePorts, describeNetwork, describeNetworkAsleep],
} as const

export type ContractPart = keyof typeof PARTS
export const CONTRACT_PARTS = Object.keys(PARTS) as ContractPart[]

export interface ContractSelection {
  /** Topics of the part to run, such as `lifecycle`; all by default. */
  readonly topics?: readonly string[]
  /** Returns why an engine leaves out the test of this name, or undefined. */
  readonly skip?: (test: string) => string | undefined
}

/** The tests of an engine call this for every part. Leaving out a part needs a reason there. */
export function describeEngineContract(
  name: string,
  part: ContractPart,
  factory: EngineFactory,
  { topics, skip }: ContractSelection = {},
): void {
  describe(`engine contract: ${name}: ${part}`, () => {
    beforeEach((context) => {
      const reason = skip?.(context.task.name)
      if (reason !== undefined) context.skip(reason)
    })
    for (const describePart of PARTS[part]) {
      const topic = describePart.name.replace(/^describe./, (beginning) => beginning.at(-1)!.toLowerCase())
      if (topics !== undefined && !topics.includes(topic)) continue
      describePart(factory)
    }
  })
}
