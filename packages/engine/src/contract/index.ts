import { describe } from 'vitest'
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
import { describeInterrupts } from './interrupts.ts'
import { describeKernelDeath } from './kernel-death.ts'
import { describeLifecycle } from './lifecycle.ts'
import { describeLimits } from './limits.ts'
import { describeMemory } from './memory.ts'
import { describeNetwork } from './network.ts'
import { describeNetworkAsleep } from './network-asleep.ts'
import { describePorts } from './ports.ts'
import { describeProcesses } from './processes.ts'
import { describeRunsErrors } from './runs-errors.ts'
import { describeRunsOutput } from './runs-output.ts'
import { describeRunsResults } from './runs-results.ts'
import { describeRunsState } from './runs-state.ts'
import { describeRunsVolume } from './runs-volume.ts'
import { describeSleep } from './sleep.ts'
import { describeSurvival } from './survival.ts'
import { describeSurvive } from './survive.ts'
import { describeTerminals } from './terminals.ts'
import { describeVolumes } from './volumes.ts'
import { describeVolumesAsleep } from './volumes-asleep.ts'
import { describeWatch } from './watch.ts'

export type { EngineFactory } from './engine-factory.ts'

/** What every engine must do. An engine's own tests call this with a factory; a part left out needs a reason there. */
export function describeEngineContract(name: string, factory: EngineFactory): void {
  describe(`engine contract: ${name}`, () => {
    describeLifecycle(factory)
    describeAdopt(factory)
    describeLimits(factory)
    describeMemory(factory)
    describeSleep(factory)
    describeFork(factory)
    describeFilesSnapshots(factory)
    describeSurvive(factory)
    describeVolumes(factory)
    describeVolumesAsleep(factory)
    describeRunsState(factory)
    describeRunsErrors(factory)
    describeRunsOutput(factory)
    describeRunsVolume(factory)
    describeRunsResults(factory)
    describeBash(factory)
    describeInterrupts(factory)
    describeKernelDeath(factory)
    describeContexts(factory)
    describeProcesses(factory)
    describeTerminals(factory)
    describeConnectedProcesses(factory)
    describePorts(factory)
    describeNetwork(factory)
    describeNetworkAsleep(factory)
    describeFiles(factory)
    describeFilesSafety(factory)
    describeWatch(factory)
    describeBadInput(factory)
    describeSurvival(factory)
  })
}
