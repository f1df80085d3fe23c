import { DormouseError } from '@dormouse/contracts'
import type { LinuxEngine } from '@dormouse/engine-linux'
import {
  fetchNpmPackage,
  fetchWheel,
  listTemplates,
  MATERIALS_PROGRAM,
  NPM_PIN,
  type NpmPin,
  nodePin,
  PIP_REPORT,
  parseMaterials,
  polarsPin,
  readTemplateMaterials,
  removeTemplate,
  TYPESCRIPT_PIN,
} from '@dormouse/engine-linux/setup'
import type { ArchiveName } from '../templates/built-in-descriptions.ts'
import type { BuilderTools } from '../templates/open-templates.ts'

export function linuxBuilder(engine: LinuxEngine, dataDir: string): BuilderTools {
  return {
    host: {
      async list() {
        const templates = await listTemplates(dataDir)
        return Promise.all(
          templates.map(async ({ name, manifest }) => {
            // A caller that asks for a damaged list gets the error.
            const materials = await readTemplateMaterials(dataDir, name).catch(() => undefined)
            return {
              name,
              description: manifest.description.description,
              createdAt: manifest.createdAt,
              bytes: manifest.sizeBytes,
              preload: manifest.description.preload,
              materials: materials && { count: materials.items.length, sha256: materials.sha256 },
            }
          }),
        )
      },
      materials: (name) => readTemplateMaterials(dataDir, name),
      async remove(name) {
        await engine.forgetTemplate(name)
        await removeTemplate(dataDir, name)
      },
    },
    programs: { materials: MATERIALS_PROGRAM, pipReport: PIP_REPORT },
    parseMaterials,
    versionOf: (name) => pinOf(name)?.version ?? 'none',
    fetchArchive: (name, signal) => {
      const pin = pinOf(name)
      if (pin === undefined)
        throw new DormouseError('setup_failed', `There is no Node.js for ${process.arch} in this version.`)
      return fetchNpmPackage({ dataDir, pin, signal })
    },
    libraryVersion: () => polarsPin(process.arch)?.version,
    async fetchLibrary(name, signal) {
      const pin = polarsPin(process.arch)
      if (pin === undefined)
        throw new DormouseError('setup_failed', `There is no ${name} for ${process.arch} in this version.`)
      const files: string[] = []
      for (const wheel of pin.wheels) files.push(await fetchWheel({ dataDir, pin: wheel, signal }))
      return { version: pin.version, files }
    },
  }
}

function pinOf(name: ArchiveName): NpmPin | undefined {
  return { node: nodePin(process.arch), npm: NPM_PIN, typescript: TYPESCRIPT_PIN }[name]
}
