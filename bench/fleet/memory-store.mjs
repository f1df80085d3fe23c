/** A store of objects in memory, for a depot whose collection is measured. */
export class MemoryStore {
  objects = new Map()
  nowMsValue = 0

  async put(name, content, { keepsFirst = false } = {}) {
    if (keepsFirst && this.objects.has(name)) return false
    this.objects.set(name, content)
    return true
  }

  async find(name) {
    return this.objects.get(name)
  }

  async has(name) {
    return this.objects.has(name)
  }

  async remove(name) {
    this.objects.delete(name)
  }

  async *list() {
    for (const [name, content] of [...this.objects]) yield { name, bytes: content.length }
  }

  async nowMs() {
    return this.nowMsValue
  }
}
