import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerProcess } from './server-process.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Template = any

/** Builds a template, and returns it when it is ready or has failed. */
export async function buildTemplate(
  server: ServerProcess,
  template: { name: string; [field: string]: unknown },
  key = server.key,
): Promise<Template> {
  await server.ok('/v1/templates', { json: template, key })
  return builtTemplate(server, template.name, key)
}

export async function builtTemplate(
  server: ServerProcess,
  name: string,
  key = server.key,
): Promise<Template> {
  for (;;) {
    const template = await server.ok(`/v1/templates/${name}`, { key })
    if (template.state !== 'building') return template
    await sleep(50)
  }
}
