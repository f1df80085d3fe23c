import { createHash } from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'
import type { Guest, Preparation } from '@dormouse/engine'
import { BuildLog } from './build-log.ts'
import { TEMPLATE_SETTINGS } from './recipe/recipe.ts'
import { startProgram } from './recipe/start-program.ts'
import { importModules } from './run-step.ts'
import type { TemplateImage, TemplateRow } from './template-rows.ts'

/** A machine may be emulated. */
const PATIENCE = 5

/**
 * What the build of a template did before it saved the processes: imports its modules and starts its program. For
 * machines, which boot on the files of a template and have none of its processes.
 */
export function preparationOf({ name, preload, image }: TemplateRow): Preparation {
  const { program, ...settings }: TemplateImage = image ?? TEMPLATE_SETTINGS
  const content = JSON.stringify([preload, program, program && settings])
  return {
    key: createHash('sha256').update(content).digest('hex').slice(0, 16),
    prepare: async (guest) => {
      const log = new BuildLog()
      try {
        await warmUp(guest, log)
      } catch (cause) {
        throw new DormouseError(
          'burrow_start_failed',
          `The template "${name}" could not be prepared in a virtual machine: ${(cause as Error).message}`,
          { hint: 'The program must start without a network.', cause },
        )
      }
    },
  }

  async function warmUp(guest: Guest, log: BuildLog): Promise<void> {
    const { signal } = new AbortController()
    // The build made sure that they can be imported; here a module that is missing costs its speed only.
    await importModules({ log, signal }, { guest }, { inherited: preload, preload: [] })
    if (program === undefined) return
    const { args, ready } = program
    await startProgram({ log, signal }, { guest }, { args, settings, ready, patience: PATIENCE })
  }
}
