import type { LinuxEngine } from '@dormouse/engine-linux'
import {
  listTemplates,
  MATERIALS_PROGRAM,
  PIP_REPORT,
  parseMaterials,
  readTemplateMaterials,
  removeTemplate,
} from '@dormouse/engine-linux/setup'
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
  }
}
