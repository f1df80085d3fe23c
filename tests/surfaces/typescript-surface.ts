import { Dormouse, Sandbox } from 'dormouse'
import type { ServerProcess } from '../server/server-process.ts'
import type { Language, Surface } from './surface.ts'

export async function typescriptSurface(server: ServerProcess): Promise<Surface> {
  const client = new Dormouse({ url: server.url, apiKey: server.key })
  const at = (id: string) => Sandbox.connect(id, { client })
  return {
    create: async (template) =>
      (await Sandbox.create(template === undefined ? {} : { template }, { client })).info,
    run: async (id, code, language) => (await at(id)).runCode(code, inLanguage(language)),
    async stream(id, code, see, language) {
      for await (const event of (await at(id)).runCodeStream(code, inLanguage(language))) {
        if (event.type === 'stdout') see(event.data)
      }
    },
    async standby(id, tier) {
      const sandbox = await at(id)
      await sandbox.idle({ tier })
      return sandbox.info
    },
    resume: async (id) => (await Sandbox.resume(id, { client })).info,
    fork: async (id, count) => (await (await at(id)).fork(count)).map((child) => child.id),
    async write(id, path, content) {
      await (await at(id)).files.write(path, content, { parents: true })
    },
    read: async (id, path) => (await at(id)).files.read(path),
    list: async (id, path) =>
      (await (await at(id)).files.list(path)).map((entry) => entry.path.slice(path.length + 1)),
    delete: async (id) => (await at(id)).delete(),
    async [Symbol.asyncDispose]() {},
  }
}

function inLanguage(language: Language | undefined): { readonly language?: Language } {
  return language === undefined ? {} : { language }
}
