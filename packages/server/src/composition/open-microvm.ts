import { join } from 'node:path'
import { findGuestKernel, KERNEL_PIN, MicrovmEngine } from '@dormouse/engine-microvm'
import type { ServerConfig } from '../config/config.ts'
import type { Log } from '../log.ts'

export interface OpenMicrovm {
  readonly config: ServerConfig
  readonly templatesDir: string
  readonly log: Log
}

/**
 * Opens the engine for virtual machines where set-up has installed it. A host without it pays nothing. When it cannot be
 * opened, sandboxes of the other kind are still served, unless this is the default.
 */
export async function openMicrovm({
  config,
  templatesDir,
  log,
}: OpenMicrovm): Promise<MicrovmEngine | undefined> {
  const isDefault = config.isolation === 'microvm'
  if (!isDefault && findGuestKernel(join(templatesDir, 'microvm', 'kernel')) === undefined) return undefined
  try {
    const engine = await MicrovmEngine.open({
      ...{ dataDir: templatesDir, stateDir: config.dataDir },
      hostMemoryBytes: config.minFreeMemoryBytes,
      log,
    })
    const { name, whyNotKvm } = engine.accelerator
    const kernel = findGuestKernel(join(templatesDir, 'microvm', 'kernel'))
    if (kernel?.isPinned === false)
      log.warn(
        { kernel: kernel.release, tested: KERNEL_PIN.release },
        'guests run a kernel that this version was not tested with: see "Updates" in docs/isolation.md',
      )
    if (name === 'tcg')
      log.warn({ whyNotKvm }, 'virtual machines are emulated, which is slow: there is no KVM')
    return engine
  } catch (error) {
    if (isDefault) throw error
    log.warn({ err: error }, 'sandboxes cannot run in virtual machines')
    return undefined
  }
}
