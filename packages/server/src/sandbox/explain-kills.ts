import type { ProcessEvent, RunEvent } from '@dormouse/contracts'
import { capitalised, howToRaise } from './memory-words.ts'
import type { Sandbox } from './sandbox.ts'

const SIGKILL_EXIT_CODE = 137
const DIED = 'KernelDied'
const OUT_OF_MEMORY = 'OutOfMemory'
/** The agent's words for what the server knows better. */
const HOW_IT_DIED = /^the kernel was ended by SIGKILL[^;\n]*/

/**
 * For the events of one run: if Linux killed its kernel, or its bash, for memory, the events say so. The agent inside
 * knows only that SIGKILL ended it; limit and peak come from the host.
 */
export function explainKills(sandbox: Sandbox, runId: string): (event: RunEvent) => Promise<RunEvent> {
  let isAsked = false
  let reason: string | undefined
  const ask = async () => {
    if (!isAsked) reason = await sandbox.memory.claimKill(runId)
    isAsked = true
    return reason
  }
  let message: string | undefined
  const explainDeath = async (died: string): Promise<string> => {
    message = `${died.replace(HOW_IT_DIED, `${await ask()}, and Linux killed the kernel`)}. ${howToRaise(sandbox.row)}`
    return message
  }
  return async (event) => {
    if (event.type === 'stderr' && event.data.startsWith(`${DIED}: the kernel was ended by SIGKILL`)) {
      if ((await ask()) === undefined) return event
      const died = event.data.slice(DIED.length + 2).trimEnd()
      return { ...event, data: `${OUT_OF_MEMORY}: ${await explainDeath(died)}\n` }
    }
    if (event.type === 'error' && event.name === DIED && HOW_IT_DIED.test(event.message)) {
      if ((await ask()) === undefined) return event
      const text = await explainDeath(event.message)
      return { ...event, name: OUT_OF_MEMORY, message: text, traceback: `${OUT_OF_MEMORY}: ${text}\n` }
    }
    if (event.type !== 'exit' || event.exitCode !== SIGKILL_EXIT_CODE) return event
    const why = await ask()
    return why === undefined ? event : { ...event, outOfMemory: message ?? killed(sandbox, why) }
  }
}

/** As `explainKills`, for the events of a command. */
export async function explainKilledProcess(
  sandbox: Sandbox,
  processId: string,
  event: ProcessEvent,
): Promise<ProcessEvent> {
  if (event.type !== 'exit' || event.exitCode !== SIGKILL_EXIT_CODE) return event
  const why = await sandbox.memory.claimKill(processId)
  return why === undefined ? event : { ...event, outOfMemory: killed(sandbox, why) }
}

function killed({ row }: Sandbox, why: string): string {
  return `${capitalised(why)}, and Linux killed the process. ${howToRaise(row)}`
}
