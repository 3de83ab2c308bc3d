import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A YARN of one resource manager and two node managers, which start real containers and kill those with too much memory.
 * It writes {@code yarn-site.xml} of its clients into the directory that is its argument, prints READY, and ends with its
 * standard input.
 */
public class MiniYarn {
  public static void main(String[] arguments) {
    try {
      run(Path.of(arguments[0]));
    } catch (Throwable error) {
      error.printStackTrace();
    }
    Runtime.getRuntime().halt(0); // its threads would go on
  }

  private static void run(Path directory) throws Exception {
    YarnConfiguration of = new YarnConfiguration();
    of.setInt("yarn.nodemanager.resource.memory-mb", 4096);
    of.setInt("yarn.nodemanager.resource.cpu-vcores", 4);
    of.setInt("yarn.scheduler.minimum-allocation-mb", 128);
    of.setBoolean("yarn.nodemanager.pmem-check-enabled", true);
    of.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
    of.setInt("yarn.nodemanager.container-monitor.interval-ms", 500);
    // The machine's disk may be nearly full, and its nodes would then take no container.
    of.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.9");
    of.set("yarn.scheduler.capacity.root.queues", "default");
    of.set("yarn.scheduler.capacity.root.default.capacity", "100");
    of.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.5");
    // What containers write stays, so that a test can search it.
    of.set("yarn.nodemanager.delete.debug-delay-sec", "600");
    try (MiniYARNCluster yarn = new MiniYARNCluster("mini", 2, 1, 1)) {
      yarn.init(of);
      yarn.start();
      Configuration forClients = new Configuration(yarn.getConfig());
      forClients.set("fs.defaultFS", "file:///");
      try (OutputStream file = Files.newOutputStream(directory.resolve("yarn-site.xml"))) {
        forClients.writeXml(file);
      }
      System.out.println("READY");
      System.in.transferTo(OutputStream.nullOutputStream());
    }
  }
}
