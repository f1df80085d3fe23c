export { LinuxEngine, type LinuxEngineOptions } from './linux-engine.ts'
export { getTemplate, listTemplates, type Template } from './template/template-store.ts'
