import type { LinuxEngine } from '@dormouse/engine-linux'
import {
  buildTemplate,
  listTemplates,
  parseTemplateDescription,
  removeTemplate,
} from '@dormouse/engine-linux/setup'
import type { TemplateBuilder } from '../templates/template-service.ts'

const SUITE = 'trixie'

export function linuxBuilder(engine: LinuxEngine, dataDir: string): TemplateBuilder {
  return {
    async list() {
      const templates = await listTemplates(dataDir)
      return templates.map(({ name, manifest }) => ({
        name,
        description: manifest.description.description,
        createdAt: manifest.createdAt,
        bytes: manifest.sizeBytes,
      }))
    },
    async build({ pip, ...description }, { say, signal }) {
      // Requirements were checked to be nothing but requirements; quoted, because a shell would take < and > for redirections.
      const install = pip.map((requirement) => `'${requirement}'`).join(' ')
      await buildTemplate({
        dataDir,
        description: parseTemplateDescription({
          ...description,
          suite: SUITE,
          packages: [...new Set([...description.packages, ...(pip.length > 0 ? ['python3-pip'] : [])])],
          commands: [
            ...(pip.length > 0 ? [`pip install --no-cache-dir ${install}`] : []),
            ...description.commands,
          ],
        }),
        report: ({ doing }) => {
          if (doing !== undefined) say(doing)
        },
        signal,
      })
      say('starting it once, to save it with what is preloaded')
      await engine.prepareTemplate(description.name)
    },
    async remove(name) {
      await engine.forgetTemplate(name)
      await removeTemplate(dataDir, name)
    },
  }
}
