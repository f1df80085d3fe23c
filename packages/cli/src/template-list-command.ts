import { listTemplates } from '@dormouse/engine-linux/setup'
import type { CommandOutput } from './doctor-command.ts'

export interface TemplateListCommand {
  readonly dataDir: string
  readonly json: boolean
  readonly stdout: CommandOutput
}

export async function templateListCommand({ dataDir, json, stdout }: TemplateListCommand): Promise<number> {
  const templates = (await listTemplates(dataDir)).map(({ manifest }) => manifest)
  if (json) {
    stdout.write(`${JSON.stringify({ templates }, null, 2)}\n`)
    return 0
  }
  if (templates.length === 0) stdout.write('There are no templates. `./dormouse up` builds the first one.\n')
  const width = Math.max(0, ...templates.map(({ name }) => name.length))
  for (const { name, suite, sizeBytes, createdAt, description } of templates) {
    const size = `${Math.round(sizeBytes / 1e6)} MB`.padStart(8)
    stdout.write(`${name.padEnd(width)}  ${suite}  ${size}  ${createdAt}  ${description.description ?? ''}\n`)
  }
  return 0
}
