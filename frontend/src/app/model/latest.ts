// Work on a value that changes while it is done: the latest value is next, and those between are left out.

export class Latest<T> {
  private next: { value: T } | null = null;
  private isBusy = false;

  constructor(private readonly work: (value: T) => Promise<void>) {}

  // True while a later value waits: what is found of an earlier one is out of date.
  get isWaiting(): boolean {
    return this.next !== null;
  }

  ask(value: T): void {
    this.next = { value };
    if (!this.isBusy) void this.run();
  }

  private async run(): Promise<void> {
    this.isBusy = true;
    try {
      while (this.next) {
        const { value } = this.next;
        this.next = null;
        await this.work(value);
      }
    } finally {
      this.isBusy = false;
    }
  }
}
